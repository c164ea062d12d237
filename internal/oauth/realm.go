package oauth

// DefaultRealm is the realm of a deployment that configures no other. Stores from before
// there were others hold its rows alone. It is a name, as OpenAM's parameter realm has it.
const DefaultRealm = "/api"
