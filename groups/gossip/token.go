package gossip

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
)

// MinTokenBytes is the shortest internal_auth_token (contract.md section 14).
const MinTokenBytes = 32

// keyLabel binds the key to what it is for. Whatever else is derived from the token
// has another label.
const keyLabel = "pathlockd gossip key v1"

const keyBytes = 32 // AES-256

// Token is internal_auth_token. It prints as a placeholder.
type Token string

func (Token) String() string       { return "(hidden)" }
func (Token) GoString() string     { return "(hidden)" }
func (Token) LogValue() slog.Value { return slog.StringValue("(hidden)") }

// errShortToken does not say how long the token is.
var errShortToken = fmt.Errorf("internal_auth_token must have at least %d bytes: nodes that gossip need the same one",
	MinTokenBytes)

// key is what gossip is encrypted and authenticated with.
func (t Token) key() ([]byte, error) {
	if len(t) < MinTokenBytes {
		return nil, errShortToken
	}
	key, err := hkdf.Key(sha256.New, []byte(t), nil, keyLabel, keyBytes)
	if err != nil {
		return nil, errors.New("derive the gossip key from internal_auth_token")
	}
	return key, nil
}
