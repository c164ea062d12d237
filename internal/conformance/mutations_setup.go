package conformance

// setupMutations break what is checked before anything is served.
var setupMutations = []Mutation{
	{
		Name: "rotation of public clients' refresh tokens", In: "general",
		Old: "if r.NoRotation && r.Auth == store.AuthNone {", New: "if false {",
		Test: here + "TestOP19",
	},
	{
		Name: "least size of a certificate's key", In: "strong",
		Old: "if key.N.BitLen() < 2048 {", New: "if key.N.BitLen() < 512 {",
		Test: "go test ./internal/server -run TestTL05",
	},
	{
		Name: "connections after the start alone", In: "Serve",
		Old: "	var public net.Listener\n", New: "	public, _ := listenPublic(cfg)\n",
		Test: "go test ./internal/node -run TestNoConnectionIsAccepted",
	},
	{
		Name: "a header that the description of the API demands", In: "Server.respond",
		Old: "h[\"X-Request-Id\"] = []string{r.ID}", New: "h[\"X-Request-Id\"] = []string{r.ID[1:]}",
		Test: here + "TestTR01",
	},
}
