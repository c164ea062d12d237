package adminapi

// A Realm is a realm of the deployment.
type Realm struct {
	Name   string `json:"name"`
	Issuer string `json:"issuer"`
	Login  string `json:"login"` // where its users authenticate: login.mode
}

// Realms is the list of realms, the default one first.
type Realms struct {
	Realms []Realm `json:"realms"`
}
