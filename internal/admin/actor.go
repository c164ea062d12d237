package admin

// An Actor is who reads or changes something, and how they came.
type Actor struct {
	Via  Via
	Name string
	Role Role
	// Realm is the only realm for which the role is, with its slash; "": it is for the
	// deployment and every realm.
	Realm string
}

// A Via says how an actor came, and so what its name is the name of.
type Via string

const (
	ViaMachine Via = "operator" // a user of this machine, on the admin socket or with the store open
	ViaToken   Via = "token"    // a token of the admin API
	ViaConsole Via = "console"  // an operator of the console
	ViaAccount Via = "subject"  // a user, on the account pages
)

// ByUser returns the actor that is a user of this machine.
func ByUser(name string) Actor { return Actor{Via: ViaMachine, Name: name, Role: RoleAdmin} }

// String returns the form in events.
func (a Actor) String() string { return string(a.Via) + ":" + a.Name }

// A Role is what an actor may do.
type Role string

const (
	RoleAuditor Role = "auditor" // reads
	RoleAdmin   Role = "admin"   // reads and changes
)

// Covers reports whether the role includes another one.
func (r Role) Covers(needed Role) bool {
	return r == RoleAdmin && (needed == RoleAdmin || needed == RoleAuditor) || r == RoleAuditor && needed == RoleAuditor
}
