package login

import "github.com/mintage/mintage/internal/issuer"

// An Authorizer serves one realm: it decides what becomes of a client's request, by what
// the parts hold. Its fields are set before first use and do not change; its methods are
// safe for concurrent use.
type Authorizer struct {
	Documents
	*Sessions
	*Consents
	*Interactions
	*Requests
	Issuer *issuer.Issuer
	// Development asks for no consent to the provider's own clients on this machine, too
	// (serve --dev).
	Development bool
	// Console is where operators sign in by this login; nil: nowhere.
	Console *Console
}

// New makes an Authorizer. The caller sets the other fields of it and of its parts.
func New(iss *issuer.Issuer, ds Documents) *Authorizer {
	return &Authorizer{
		Documents: ds, Issuer: iss, Sessions: &Sessions{Documents: ds, Issuer: iss}, Consents: &Consents{ds, iss},
		Interactions: &Interactions{Documents: ds, Pending: &Pending{}}, Requests: &Requests{Documents: ds, Issuer: iss},
	}
}
