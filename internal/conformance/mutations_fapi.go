package conformance

// fapiMutations remove safeguards of clients that follow the FAPI 2.0 Security Profile.
var fapiMutations = []Mutation{
	{
		Name: "a list as audience of a client of the profile", In: "Authenticator.checkOwn",
		Old: "case claims.Audience.list && c.FAPI():", New: "case false:",
		Test: here + "TestFAPISecurityProfile",
	},
	{
		Name: "a stolen access token with a thief's proof", In: "Request.Presented",
		Old: "case key != bound:", New: "case key == oauth.JKT{}:",
		Test: here + "TestDP39",
	},
	{
		Name: "codes of a minute", In: "Issuer.CodeLifetimeOf",
		Old: "if c.FAPI() {", New: "if false {",
		Test: here + "TestFAPISecurityProfile",
	},
	{
		Name: "codes of operators for clients of the profile", In: "Codes.Issue",
		Old: "if c.FAPI() {", New: "if false {",
		Test: here + "TestFA04",
	},
	{
		Name: "workloads of the profile that do not authenticate", In: "Request.assertingClient",
		Old: "case c.FAPI():", New: "case false:",
		Test: here + "TestFA10",
	},
	{
		Name: "contradictions to the profile", In: "Registration.checkProfile",
		Old: "r.Profile == store.ProfileFAPI2 && !d.met(r)", New: "false",
		Test: here + "TestFA02",
	},
	{
		Name: "values of the profile", In: "Registration.Follow",
		Old: "if d.set != nil && !d.met(r) {", New: "if false {",
		Test: "go test ./internal/adminapi -run TestAProfile",
	},
	{
		Name: "the profile of every client", In: "Clients.follows",
		Old: `if a.Profile == "" || c.Profile == a.Profile || !c.GetsTokens() {`, New: "if true {",
		Test: "go test ./internal/admin -run TestEveryClientFollows",
	},
	{
		Name: "trusts of clients without the profile of every client", In: "Trusts.apisOf",
		Old: `case a.Profile != "" && old.Version == 0 &&`, New: `case false && old.Version == 0 &&`,
		Test: "go test ./internal/admin -run TestEveryClientFollows",
	},
	{
		Name: "settings that weaken the profile", In: "Config.Weakens",
		Old: "profile == ProfileFAPI2 && !d.met", New: "false",
		Test: "go test ./internal/config -run TestAConfigurationThatDemands",
	},
	{
		Name: "cipher suites at the public address", In: "findings.judgeProfileOfTLS",
		Old: "if weak != nil {", New: "if false {",
		Test: "go test ./internal/doctor -run TestThePublicAddressOfAProfile",
	},
	{
		Name: "a login that is too old at a proxy", In: "Authenticated",
		Old: "iss.now().Since(t.AuthTime) <= maxAge", New: "true",
		Test: here + "TestSU01",
	},
	{
		Name: "a login of another class at a proxy", In: "Authenticated",
		Old: "len(classes) == 0 || slices.Contains(classes, t.ACR)", New: "true",
		Test: here + "TestSU01",
	},
	{
		Name: "the class of a login that nobody asked for", In: "ClassOf",
		Old: "if !f.SaysACR {", New: "if false {",
		Test: "go test ./internal/issuer -run TestTheClassOfALogin",
	},
	{
		Name: "the class that a request asks for", In: "Requests.openID",
		Old: "r.Classes = wished(r.ACRValues, builtIn)", New: "",
		Test: here + "TestSU05",
	},
	{
		Name: "a login that is too old at an API in Go", In: "Authentication.Check",
		Old: "now.Sub(p.AuthTime) > a.MaxAge", New: "false",
		Test: "go test ./resource -run TestAnAPIDemandsALogin",
	},
}
