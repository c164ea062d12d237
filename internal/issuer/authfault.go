package issuer

import (
	"crypto/subtle"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// An AuthFault is why a client was not authenticated: an ErrClient that says
// more, for operators. The one who asks is told nothing of it.
type AuthFault string

const (
	UnknownClient  AuthFault = "unknown_client"  // or one of another realm
	ClientInactive AuthFault = "client_disabled" // or deleted
	WrongMethod    AuthFault = "wrong_method"    // not the one that it is registered for
	WrongSecret    AuthFault = "wrong_secret"
	ExpiredSecret  AuthFault = "expired_secret" // the right one, too late
)

func (f AuthFault) Error() string { return ErrClient.Error() + ": " + string(f) }

// Is makes every AuthFault an ErrClient.
func (f AuthFault) Is(target error) bool { return target == ErrClient }

// unfit is why a client may not authenticate, whatever its secret.
func unfit(v *View, realm, id string) error {
	c, known := v.Registered(realm, id)
	switch {
	case !known:
		return UnknownClient
	case c.State != store.ClientEnabled:
		return ClientInactive
	}
	return WrongMethod
}

// wrong is why none of a client's secrets was right.
func wrong(c *store.Client, now grant.Instant, digest, raw []byte) error {
	for _, s := range c.Secrets {
		if s.Expired(now) && subtle.ConstantTimeCompare(s.Digest, digest)|subtle.ConstantTimeCompare(s.Digest, raw) == 1 {
			return ExpiredSecret
		}
	}
	return WrongSecret
}
