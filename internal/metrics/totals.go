package metrics

import "github.com/mintage/mintage/internal/oauth"

// inTotals are the families from which totalOf counts.
var inTotals = []string{httpDuration, refreshes, throttled, shed, logins, tokenRequests}

// Totals returns the numbers of events in all realms since the start, by the names in
// traffic.Names. It leaves out results that a client expects, such as
// authorization_pending.
func (m *Metrics) Totals() map[string]uint64 {
	totals := map[string]uint64{}
	if m == nil {
		return totals
	}
	families, err := m.totals.Gather()
	if err != nil {
		return totals
	}
	for _, f := range families {
		for _, x := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range x.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if name := totalOf(f.GetName(), labels); name != "" {
				totals[name] += uint64(x.GetCounter().GetValue()) + x.GetHistogram().GetSampleCount()
			}
		}
	}
	return totals
}

// totalOf returns the name in Totals for which a sample of a family counts; "": none.
func totalOf(family string, labels map[string]string) string {
	switch family {
	case httpDuration:
		return "requests"
	case refreshes:
		return "refreshes"
	case throttled:
		return "throttled"
	case shed:
		return "overloaded"
	case logins:
		if labels["result"] == LoginOK {
			return "logins"
		}
		return "login_" + labels["result"]
	case tokenRequests:
		switch result := labels["result"]; oauth.ErrorCode(result) {
		case ok:
			if labels["grant_type"] == "authorization_code" {
				return "codes"
			}
		case oauth.AuthorizationPending, oauth.SlowDown, oauth.UseDPoPNonce:
		default:
			return result
		}
	}
	return ""
}
