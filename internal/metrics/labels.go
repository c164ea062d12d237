package metrics

import (
	"slices"
	"strings"
)

// A Label documents the values of a label.
type Label struct{ Family, Label, Values string }

// Labels lists them in the order of Families. Closed sets are read from a Metrics.
func Labels() (list []Label) {
	m := New("", 0)
	said := map[string][]string{
		httpDuration:  {"the names of the endpoints, as in the log: `token request`, `introspection`, `authorization` ...; `request` is any other path", "`GET`, `HEAD`, `POST`, `OPTIONS`, `_OTHER`", "the status"},
		storeDuration: {words(operations)},
		requestsNow:   {words([]string{stateWorking, stateWaiting})},
		sweepLag:      {words(sweptTables)},
		keyAge:        {"the key's id, as in `mintage keys list`", "`mac`, `seal`, `audit`, `pepper`, `ES256`, `EdDSA`, `RS256`"},
		keyExpiry:     {"as above", "as above"},
		secretExpiry:  {"the client's id", "the secret's id, as in `mintage client secret list`", "`true`, `false`"},
		clientRequests: {
			"the client's id, or `other`", words(append(slices.Clone(results), Other)),
		},
		buildInformation: {"what `mintage --version` says", "Go's version"},
	}
	for _, t := range m.tables {
		var values []string
		for _, s := range t.sets {
			values = append(values, words(s.all()))
		}
		said[t.name] = values
	}
	for _, f := range families {
		for i, label := range f.Labels {
			list = append(list, Label{f.Name, label, said[f.Name][i]})
		}
	}
	return list
}

func words(values []string) string { return "`" + strings.Join(values, "`, `") + "`" }
