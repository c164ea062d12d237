package conformance

const (
	queue   = "go test ./internal/overload -run "
	limits  = "go test ./internal/server -run "
	atToken = "go test ./internal/server/token -run "
)

var limitMutations = []Mutation{
	{
		Name: "limit of requests at once", In: "Queue.Enter",
		Old: "if q.queues[c].Len() == 0 && q.free(c) {", New: "if true {",
		Test: queue + "TestRequestsBeyondTheSlots",
	},
	{
		Name: "limit of queued requests", In: "Queue.Enter",
		Old: "if all >= q.waiting ||", New: "if all < 0 ||",
		Test: queue + "TestARequestThatWouldBeOneTooMany",
	},
	{
		Name: "longest wait in the queue", In: "Queue.Enter",
		Old: "case <-timer.C:\n", New: "case <-make(chan int):\n",
		Test: queue + "TestWhoWaitsLonger",
	},
	{
		Name: "refreshes before codes", In: "Queue.next",
		Old: "if !ok || q.turns%lowTurn == lowTurn-1 {", New: "if true {",
		Test: queue + "TestRefreshesHavePriority",
	},
	{
		Name: "class of a refresh", In: "grantTypes",
		Old: "store.GrantRefreshToken: {overload.Refresh,", New: "store.GrantRefreshToken: {overload.Code,",
		Test: atToken + "TestARequestWaitsInItsClass",
	},
	{
		Name: "class of a code", In: "grantTypes",
		Old: "store.GrantAuthorizationCode: {overload.Code,", New: "store.GrantAuthorizationCode: {overload.Refresh,",
		Test: atToken + "TestARequestWaitsInItsClass",
	},
	{
		Name: "slots of clients that registered themselves", In: "Queue.free",
		Old: "case c == Own && q.busy():", New: "case c == Own && false:",
		Test: queue + "TestClientsThatRegisteredThemselvesLeaveSlots",
	},
	{
		Name: "class of clients that registered themselves", In: "Request.EnterFor",
		Old: "c = overload.Own", New: "_ = overload.Own",
		Test: atToken + "TestClientsThatRegisteredThemselvesWait",
	},
	{
		Name: "slots of self-registered clients, which the id of a public client alone does not take", In: "Request.Client",
		Old: "if !c.Public() {", New: "if true {",
		Test: here + "TestOP07_WhoNames",
	},
	{
		Name: "slot given back while a client's host is awaited", In: "Queue.Aside",
		Old: "q.Leave(Own, of)\n\t\t*held = false\n", New: "q.count(of, network{present: -1})\n\t\tdefer q.Leave(Own, netip.Prefix{})\n",
		Test: queue + "TestASlowHostHoldsNoSlot",
	},
	{
		Name: "waits for hosts that take no logins", In: "Queue.stepAside",
		Old: "network{aside: n}", New: "network{aside: n, slow: n}",
		Test: queue + "TestWaitsForKeysTakeNoLogins",
	},
	{
		Name: "a client's share of the waits for hosts", In: "Queue.stepAside",
		Old: "!Fair(q.aside[client], n, room, networkShare) ||", New: "",
		Test: queue + "TestASlowHostHoldsNoSlot",
	},
	{
		Name: "a network's share of the queue of clients that registered themselves", In: "Request.Enter",
		Old: "if r.Route.Page || c == overload.Own {", New: "if r.Route.Page {",
		Test: atToken + "TestOneNetworkHasItsShare",
	},
	{
		Name: "slot taken before the client is authenticated", In: "Endpoints.token",
		Old:  "if err = r.EnterFor(of.class, p); err != nil {\n\t\treturn a, rec, err\n\t}\n\tif err = r.AskNonce(p); err != nil {\n\t\treturn a, rec, err\n\t}\n\tauthenticate := r.Client\n\tif rec.GrantType == store.GrantDeviceCode {\n\t\tauthenticate = r.DeviceClient\n\t}\n\tc, id, err := authenticate(ctx, p)\n\trec.ClientID = id\n",
		New:  "c, id, err := r.Client(ctx, p)\n\trec.ClientID = id\n\tif err == nil {\n\t\terr = r.EnterFor(of.class, p)\n\t}\n",
		Test: atToken + "TestARequestWaitsInItsClass",
	},
	{
		Name: "a full queue noticed before the body is read", In: "Request.Begin",
		Old: "if err := r.Early(); err != nil {", New: "if err := error(nil); err != nil {",
		Test: atToken + "TestAFullQueueIsNoticed",
	},
	{
		Name: "a full queue noticed before the body of a request about a token", In: "Request.AboutToken",
		Old: "if err = r.Early(); err != nil {", New: "if err = error(nil); err != nil {",
		Test: atToken + "TestAFullQueueIsNoticed",
	},
	{
		Name: "Retry-After rounded up", In: "InSeconds",
		Old: "math.Ceil(wait.Seconds())", New: "math.Floor(wait.Seconds())",
		Test: limits + "TestRetryAfterIsRounded",
	},
	{
		Name: "Retry-After spread", In: "retryAfter",
		Old: "1 + rand.IntN(shedSpread)", New: "shedSpread + 0*rand.IntN(shedSpread)",
		Test: limits + "TestRetryAfterIsRounded",
	},
	{
		Name: "slots reserved for checks", In: "Queue.free",
		Old: "case c != Check && writers >= q.slots-q.slots/8:", New: "case c == Login && writers >= q.slots-q.slots/8:",
		Test: queue + "TestEachClassLeavesSlots",
	},
	{
		Name: "slot released after the request", In: "Server.safely",
		Old: "if r.slot {", New: "if false {",
		Test: here + "TestOP07_EveryRequest",
	},
	{
		Name: "the connection that has kept the server waiting longest makes room", In: "Connections.enter",
		Old: "pushed = c.all.longest()", New: "pushed = nil",
		Test: limits + "TestTheConnectionThatWaitsLongest",
	},
	{
		Name: "an address at its limit replaces its own connection", In: "Connections.enter",
		Old: "if c.limits.OfAddress > 0 && m.counted.n >= c.limits.OfAddress {", New: "if false {",
		Test: here + "TestTL10_TL11",
	},
	{
		Name: "streams counted by address", In: "Connections.stream",
		Old: "full := m.counted != nil && c.limits.OfAddress > 0 && c.streamsOf[m.address] >= c.limits.OfAddress", New: "full := false",
		Test: here + "TestTL11_Streams",
	},
	{
		Name: "proof before a client's requests are counted", In: "Request.CountClient",
		Old: "if c.Public() {", New: "if false {",
		Test: here + "TestCA22_RequestsOfAClient",
	},
	{
		Name: "failures counted where they come from", In: "Throttle.Failed",
		Old: "t.add(byClientFailures, key{Network(a, 64), client})", New: "t.add(byClientFailures, key{client: client})",
		Test: here + "TestCA22",
	},
	{
		Name: "interactions charged by weight", In: "login.kilobytes",
		Old: "return 1 + size/1024", New: "return 1 + 0*size",
		Test: "go test ./internal/login -run TestAnInteractionIsChargedByItsWeight",
	},
	{
		Name: "a network's share of the interactions", In: "Pending.add",
		Old: "case network.IsValid() && !overload.Fair(", New: "case false && !overload.Fair(",
		Test: "go test ./internal/login -run TestFiveNetworksDoNotKeepOthers",
	},
	{
		Name: "length of the state of a user who is not signed in", In: "Authorizer.ask",
		Old: "if st.Session == nil && len(r.State) > MaxGuestState {", New: "if false {",
		Test: "go test ./internal/login -run TestTheStateOfAGuestIsLimited",
	},
	{
		Name: "weight of an interaction counted at its address", In: "Throttle.Begin",
		Old: "t.limiters[byInteractions].AddWeight(who, weight, now)", New: "t.limiters[byInteractions].AddWeight(who, 1, now)",
		Test: queue + "TestInteractionsCountByTheirWeight",
	},
	{
		Name: "wrong passwords counted in the networks around an address", In: "throttle.take",
		Old: "for _, l := range levels[:n] {", New: "for _, l := range levels[:min(n, 1)] {",
		Test: "go test ./internal/account -run TestANetworkOfIPv6",
	},
	{
		Name: "a network's share of the password checks", In: "SlowPool.enter",
		Old: "case !overload.Fair(held, 1, free, ofParty):", New: "case !overload.Fair(0, 1, free, ofParty):",
		Test: "go test ./internal/account -run TestOneNetworkDoesNotFill",
	},
	{
		Name: "turn of a network without a running check before another's second", In: "SlowPool.turn",
		Old: "order: p.arrivals + before*p.places,", New: "order: p.arrivals + 0*before,",
		Test: "go test ./internal/account -run TestOneNetworkDoesNotFill",
	},
	{
		Name: "a network's share of the checks of imported secrets", In: "Authenticator.checkSlow",
		Old: "if from.IsValid() {", New: "if false {",
		Test: "go test ./internal/client -run TestOneNetworkDoesNotFill",
	},
	{
		Name: "a network's share of the visitors' queue", In: "Queue.Enter",
		Old: "of.IsValid() && !Fair(q.networks[of].queued, 1, room, networkShare)", New: "false",
		Test: queue + "TestOneNetworkDoesNotFillTheQueue",
	},
	{
		Name: "order of visitors whose network has none at work", In: "Queue.Enter",
		Old: "now.Add(time.Duration(q.networks[of].present) * penalty)", New: "now.Add(0 * penalty)",
		Test: queue + "TestAVisitorGoesBefore",
	},
	{
		Name: "a network's share of slow logins", In: "Queue.Slow",
		Old: "ok := Fair(q.networks[of].slow, 1, q.loginSlots()-q.slow, networkShare)", New: "ok := q.slow < q.loginSlots()",
		Test: queue + "TestOneNetworkDoesNotHold",
	},
	{
		Name: "failures behind an undeclared proxy", In: "Server.endpoint",
		Old: "if !s.maybeUndeclaredProxy(r.Address) {", New: "if true {",
		Test: here + "TestCA22_AnUndeclaredProxy",
	},
	{
		Name: "an empty Basic secret is none", In: "ParseCredentials",
		Old: `if raw == "" {`, New: "if false {",
		Test: here + "TestCA19_AnEmptyBasicSecret",
	},
	{
		Name: "strict transport for the machine's own name", In: "Site.strictTransport",
		Old: `return err != nil && host != "localhost" &&`, New: "return err != nil &&",
		Test: here + "TestTL06",
	},
	{
		Name: "turns of visitors beside codes", In: "Queue.longest",
		Old: "w.came.Before(q.first(best).came)", New: "w.since.Before(q.first(best).since)",
		Test: queue + "TestVisitorsOfABusyNetwork",
	},
	{
		Name: "a nearer deadline of a connection", In: "lazyDeadline.want",
		Old: "!t.Before(l.set)", New: "true",
		Test: limits + "TestADeadlineThatMovesAway",
	},
	{
		Name: "reads beside a handler", In: "hold",
		Old: "m.held = !m.reading", New: "m.held = false",
		Test: limits + "TestNothingIsRead",
	},
}
