package load

import (
	"errors"
	"fmt"
	"io"
)

// Idle opens connections that greet the server and then do nothing, until they are
// closed.
func Idle(addr string, n int) (io.Closer, error) {
	var all conns
	for i := range n {
		c, err := dial(addr, true)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connection %d: %w", i+1, err), all.Close())
		}
		c.in, c.out = nil, nil
		all = append(all, c)
	}
	return all, nil
}

// conns is some connections.
type conns []*conn

// Close closes them all.
func (all conns) Close() error {
	var err error
	for _, c := range all {
		err = errors.Join(err, c.nc.Close())
	}
	return err
}
