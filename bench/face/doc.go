// Package face has a client for each interface of the compatibility layer, as a user
// would have it: gRPC's own library, and net/http or quic-go with JSON. A client's
// work is part of what a request costs its user, and is measured with it.
package face
