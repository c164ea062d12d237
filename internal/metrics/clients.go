package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// clients counts token requests by client. Only clients that have received tokens
// have a label of their own, so that callers cannot make labels up. The first max
// clients keep theirs until the process ends: a counter never changes its meaning.
type clients struct {
	vec *prometheus.CounterVec
	max int

	mu sync.RWMutex
	of map[string]map[string]prometheus.Counter // by client id, by result
}

func (m *Metrics) newClients(max int) *clients {
	c := &clients{vec: m.counters(clientRequests), max: max, of: map[string]map[string]prometheus.Counter{}}
	c.of[""] = c.row(Other)
	return c
}

func (c *clients) row(clientID string) map[string]prometheus.Counter {
	row := map[string]prometheus.Counter{}
	for _, result := range append([]string{Other}, results...) {
		row[result] = c.vec.WithLabelValues(clientID, result)
	}
	return row
}

func (c *clients) count(clientID, result string) {
	if c == nil {
		return
	}
	c.mu.RLock()
	row, known := c.of[clientID]
	full := len(c.of) > c.max // one of them is for all other clients
	c.mu.RUnlock()
	if !known && !full && result == ok {
		row, known = c.admit(clientID)
	}
	if !known {
		row = c.of[""]
	}
	counter := row[result]
	if counter == nil {
		counter = row[Other]
	}
	counter.Inc()
}

func (c *clients) admit(clientID string) (row map[string]prometheus.Counter, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if row, known = c.of[clientID]; known || len(c.of) > c.max {
		return row, known
	}
	row = c.row(clientID)
	c.of[clientID] = row
	return row, true
}
