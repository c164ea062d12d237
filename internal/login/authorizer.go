package login

import "github.com/mintage/mintage/internal/issuer"

// An Authorizer decides the authorization requests of one realm. Its fields are set before
// first use and do not change; its methods are safe for concurrent use.
type Authorizer struct {
	Documents
	*Sessions
	*Consents
	*Interactions
	*Requests
	Issuer *issuer.Issuer
	// Development omits the consent also for first-party clients with a loopback redirect
	// URI (serve --dev).
	Development bool
	// Console is the operators' console, which uses this login; nil: there is none.
	Console *Console
}

// New makes an Authorizer. The caller sets the other fields of it and of its parts.
func New(iss *issuer.Issuer, ds Documents) *Authorizer {
	return &Authorizer{
		Documents: ds, Issuer: iss, Sessions: &Sessions{Documents: ds, Issuer: iss}, Consents: &Consents{ds, iss},
		Interactions: &Interactions{Documents: ds, Pending: &Pending{}}, Requests: &Requests{Documents: ds, Issuer: iss},
	}
}
