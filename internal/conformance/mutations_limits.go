package conformance

const limits = "go test ./internal/server -run "

var limitMutations = []Mutation{
	{
		Name: "bound of requests at once", File: "internal/server/admission.go",
		Old: "if a.queues[c].n == 0 && a.may(c) {", New: "if true {",
		Test: limits + "TestRequestsBeyondThePlaces",
	},
	{
		Name: "bound of requests that wait", File: "internal/server/admission.go",
		Old: "if all >= a.waiting ||", New: "if all < 0 ||",
		Test: limits + "TestARequestThatWouldBeOneTooMany",
	},
	{
		Name: "patience of a request that waits", File: "internal/server/admission.go",
		Old: "case <-timer.C:\n", New: "case <-make(chan int):\n",
		Test: limits + "TestWhoWaitsLonger",
	},
	{
		Name: "holders before newcomers", File: "internal/server/admission.go",
		Old: "if !ok || a.turns%newcomersTurn == newcomersTurn-1 {", New: "if true {",
		Test: limits + "TestHoldersGoBeforeNewcomers",
	},
	{
		Name: "places that are left for checks", File: "internal/server/admission.go",
		Old: "case c != checks && writers >= a.places-a.places/8:", New: "case c == visitors && writers >= a.places-a.places/8:",
		Test: limits + "TestOneKindOfRequestLeavesPlaces",
	},
	{
		Name: "place given back", File: "internal/server/server.go",
		Old: "if x.inside {", New: "if false {",
		Test: here + "TestOP07_EveryRequest",
	},
	{
		Name: "room made by who keeps the server waiting", File: "internal/server/connections.go",
		Old: "pushed = c.all.longest()", New: "pushed = nil",
		Test: limits + "TestTheConnectionThatWaitsLongest",
	},
	{
		Name: "address that pushes out its own", File: "internal/server/connections.go",
		Old: "if c.limits.OfAddress > 0 && m.counted.n >= c.limits.OfAddress {", New: "if false {",
		Test: here + "TestTL10_TL11",
	},
	{
		Name: "streams counted by address", File: "internal/server/streams.go",
		Old: "full := m.counted != nil && c.limits.OfAddress > 0 && c.streamsOf[m.address] >= c.limits.OfAddress", New: "full := false",
		Test: here + "TestTL11_Streams",
	},
	{
		Name: "proof before a client's requests are counted", File: "internal/server/token.go",
		Old: "if err := s.ofClient(x, c.ID, c.Public()); err != nil {", New: "if err := s.ofClient(x, c.ID, false); err != nil {",
		Test: here + "TestCA22_RequestsOfAClient",
	},
	{
		Name: "failures counted where they come from", File: "internal/server/throttle.go",
		Old: "t.add(byClientFailures, party{buckets.Network(a, 64), client})", New: "t.add(byClientFailures, party{client: client})",
		Test: here + "TestCA22",
	},
	{
		Name: "strict transport for the machine's own name", File: "internal/server/address.go",
		Old: `return err != nil && host != "localhost" &&`, New: "return err != nil &&",
		Test: here + "TestTL06",
	},
}
