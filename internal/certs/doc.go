// Package certs keeps the TLS certificate that the interfaces serve with: from files
// that somebody else renews, or one of its own making for development.
package certs
