package server

import "net/http"

// This file is about the requests of HTTP/2 within Connections: many of them
// share one connection.

// answering counts the requests of a connection of HTTP/2 that are being
// answered.
func (c *Connections) answering(m *connection, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered(m, change)
}

func (c *Connections) answered(m *connection, change int) {
	if m.gone {
		return
	}
	m.answering += change
	c.stopWaiting(m)
	if m.answering == 0 {
		c.wait(m)
	}
}

// stream counts a request of HTTP/2 until leave is called.
func (c *Connections) stream(r *http.Request) (leave func(), ok bool) {
	m, _ := r.Context().Value(connectionKey{}).(*connection)
	if m == nil {
		return func() {}, true
	}
	c.mu.Lock()
	var pushed *connection
	what := shedConnectionsOfAddress
	full := m.counted != nil && c.limits.OfAddress > 0 && c.streamsOf[m.address] >= c.limits.OfAddress
	if full {
		pushed = m.counted.longestWithRequests()
	} else if full = c.limits.All > 0 && c.streams >= c.limits.All; full {
		what, pushed = shedConnections, c.all.longestWithRequests()
	}
	if pushed != nil {
		c.remove(pushed)
	}
	ok = !m.gone && (!full || pushed != nil)
	if ok {
		c.countStreams(m, 1)
		c.answered(m, 1)
	}
	c.mu.Unlock()
	if full {
		c.note(what)
	}
	if pushed != nil {
		pushed.Conn.Close()
	}
	if !ok {
		return nil, false
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if m.gone {
			return // and is not counted any more
		}
		c.countStreams(m, -1)
		c.answered(m, -1)
	}, true
}

// longestWithRequests is the one with requests that has waited longest for its
// client, or nil. It is looked for only when there are too many requests.
func (c *crowd) longestWithRequests() *connection {
	for l := c.waiting.first; l != nil; l = l.after {
		if l.of.streams > 0 {
			return l.of
		}
	}
	return nil
}

func (c *Connections) countStreams(m *connection, change int) {
	m.streams += change
	c.streams += change
	if m.counted == nil || change == 0 {
		return
	}
	if c.streamsOf[m.address] += change; c.streamsOf[m.address] == 0 {
		delete(c.streamsOf, m.address)
	}
}
