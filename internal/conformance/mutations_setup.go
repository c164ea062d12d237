package conformance

// setupMutations break what is checked before anything is served.
var setupMutations = []Mutation{
	{
		Name: "rotation of public clients' refresh tokens", File: "internal/issuer/settings.go",
		Old: "if r.NoRotation && r.Auth == store.AuthNone {", New: "if false {",
		Test: here + "TestOP19",
	},
	{
		Name: "least size of a certificate's key", File: "internal/server/certificate.go",
		Old: "if key.N.BitLen() < 2048 {", New: "if key.N.BitLen() < 512 {",
		Test: "go test ./internal/server -run TestTL05",
	},
	{
		Name: "connections after the start alone", File: "internal/node/serve.go",
		Old: "	var public net.Listener\n", New: "	public, _ := listenPublic(cfg)\n",
		Test: "go test ./internal/node -run TestNoConnectionIsAccepted",
	},
	{
		Name: "a header that the description of the API demands", File: "internal/server/server.go",
		Old: "h[\"X-Request-Id\"] = []string{r.ID}", New: "h[\"X-Request-Id\"] = []string{r.ID[1:]}",
		Test: here + "TestTR01",
	},
}
