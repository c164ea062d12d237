package admin

// An Actor is the user, operator or token that reads or changes something.
type Actor struct {
	Via  Via
	Name string
	Role Role
	// Realm is the only realm that the role covers, with its slash; "": the role covers the
	// deployment and every realm.
	Realm string
}

// A Via is the interface that an actor uses, and thereby what kind of name Actor.Name is.
type Via string

const (
	ViaMachine Via = "operator" // a user of this machine, on the admin socket or with the store open
	ViaToken   Via = "token"    // a token of the admin API
	ViaConsole Via = "console"  // an operator of the console
	ViaAccount Via = "subject"  // a user, on the account pages
)

// ByUser returns the actor that is a user of this machine.
func ByUser(name string) Actor { return Actor{Via: ViaMachine, Name: name, Role: RoleAdmin} }

// String returns the form that events record, such as "token:ci".
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
