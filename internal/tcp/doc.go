// Package tcp is what connections of clients and of nodes need of the kernel alike.
package tcp
