package bench

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// defaultPause is the default of Load.Pause.
const defaultPause = 20 * time.Millisecond

// A worker is one connection and what it owns.
type worker struct {
	*run
	conn    *conn
	chains  *Chains
	request []byte
	body    int // offset of the body in request, if it is sent separately
	resp    response
	answer  answer

	done, wrong atomic.Int64
	latency     Histogram
	errors      map[string]int64
	tokens      []string
}

func (r *run) newWorker(i int) *worker {
	w := &worker{run: r, errors: map[string]int64{}}
	if r.Operation != Code {
		w.chains = r.Chains[i]
	}
	return w
}

func (w *worker) connect(ctx context.Context) (err error) {
	w.conn, err = dial(ctx, w.addr, w.tls)
	return err
}

func (w *worker) disconnect() {
	if w.conn != nil {
		w.conn.close()
		w.conn = nil
	}
}

// work makes requests until the load's end.
func (w *worker) work(ctx context.Context) {
	now := w.begin
	for ctx.Err() == nil && (w.Duration == 0 || now.Sub(w.begin) < w.Duration) {
		ticket := w.taken.Add(1)
		if w.Requests != 0 && ticket > w.Requests {
			return
		}
		if w.Rate > 0 {
			var due bool
			if now, due = w.await(ctx, ticket); !due {
				return
			}
		}
		var sent []byte
		if w.Operation == Code {
			if ticket > int64(len(w.Codes)) {
				return
			}
			w.build([]byte(w.Codes[ticket-1]))
		} else {
			if len(w.chains.tokens) == 0 {
				return // every chain was refused
			}
			if w.Operation == Poll {
				w.chains.next = int(now.Sub(w.begin) / pollMoment)
			}
			w.chains.next %= len(w.chains.tokens)
			sent = w.chains.tokens[w.chains.next]
			w.build(sent)
		}
		err := w.exchange(ctx, now, sent)
		end := time.Now()
		if err != nil && ctx.Err() != nil {
			return // the run was interrupted: not a fault
		}
		if err == nil {
			w.latency.Add(end.Sub(now))
			w.done.Add(1)
		} else {
			w.count(err)
		}
		if w.Operation == Code {
			if err == nil && w.Collect {
				w.tokens = append(w.tokens, string(w.answer.refresh))
			}
		} else {
			w.goOn(err)
		}
		now = end
		if s := w.resp.status; s == 0 || s == 429 || s >= 500 {
			select {
			case <-ctx.Done():
			case <-time.After(w.Pause):
			}
			now = time.Now()
		}
	}
}

// await waits until a request is due and returns that time, or false if it is not due
// before the load's end. A late wake-up by the system does not count against the server,
// and drops no request.
func (w *worker) await(ctx context.Context, ticket int64) (time.Time, bool) {
	due := w.begin.Add(time.Duration(float64(ticket-1) / w.Rate * float64(time.Second)))
	if w.Duration != 0 && due.Sub(w.begin) >= w.Duration {
		return due, false
	}
	wait := time.Until(due)
	if wait <= 0 {
		return due, true
	}
	select {
	case <-ctx.Done():
		return due, false
	case <-time.After(wait):
	}
	return time.Now(), true
}

// build writes the request that carries a code or a token.
func (w *worker) build(credential []byte) {
	end := "\r\n\r\n"
	if w.Target.Proof != nil {
		end = "\r\nDPoP: " + w.Target.Proof(credential) + end
	}
	if w.Operation == Verify || w.Operation == Authorize {
		w.request = append(append(append(w.request[:0], w.head...), credential...), end...)
		return
	}
	if !plain(credential) {
		credential = []byte(url.QueryEscape(string(credential)))
	}
	proof := ""
	if w.Target.Assertion != nil {
		proof = "&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=" + w.Target.Assertion()
	}
	b := append(w.request[:0], w.head...)
	b = strconv.AppendInt(b, int64(len(w.form)+len(credential)+len(proof)), 10)
	b = append(b, end...)
	if w.Target.Shape.Apart {
		w.body = len(b)
	}
	b = append(b, w.form...)
	b = append(b, credential...)
	w.request = append(b, proof...)
}

// plain reports whether a credential needs no escaping in a form.
func plain(b []byte) bool {
	for _, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// exchange makes the request and checks the response. It closes a failed connection.
func (w *worker) exchange(ctx context.Context, now time.Time, sent []byte) error {
	w.resp.status = 0
	w.answer = answer{}
	if w.conn == nil {
		if err := w.connect(ctx); err != nil {
			return transport("connect", err)
		}
	}
	if err := w.conn.exchange(w.request, w.body, &w.resp, now); err != nil {
		w.resp.status = 0
		w.disconnect()
		return transport("exchange", err)
	}
	if w.resp.close || w.Operation == Connect {
		w.disconnect()
	}
	if w.Operation == Authorize {
		return codeAt(&w.resp, w.Target.RedirectURI)
	}
	if w.Operation == Poll && w.resp.status == 400 && bytes.Contains(w.resp.body, []byte(`{"error":"authorization_pending",`)) {
		return nil
	}
	if w.Target.FixedBody == 0 && w.resp.status == 200 {
		switch w.Operation {
		case Introspect:
			return aliveJSON(&w.resp)
		case Service, Exchange:
			return w.answer.service(&w.resp, w.Target.MaxExpiresIn)
		case Verify:
			return aliveEmpty(&w.resp)
		}
	}
	if err := w.answer.parse(w.resp.body); err != nil && w.resp.status == 200 {
		return err
	}
	if w.Target.FixedBody != 0 {
		if len(w.resp.body) != w.Target.FixedBody {
			return errSize
		}
		sent = nil
	}
	return w.answer.check(&w.resp, sent, w.Target.MaxExpiresIn)
}

// goOn continues a chain after a response. A refused token ends its chain. A token
// without a response is sent again: within its retry window, the server repeats the lost
// pair.
func (w *worker) goOn(err error) {
	c := w.chains
	switch {
	case w.Target.FixedBody != 0, err == nil && w.Operation != Refresh && w.Operation != Connect:
		c.next++
	case w.resp.status == 200 && len(w.answer.refresh) > 0:
		c.tokens[c.next] = append(c.tokens[c.next][:0], w.answer.refresh...)
		c.next++
	case err != nil && w.resp.status >= 400 && w.resp.status < 500 && w.resp.status != 429:
		last := len(c.tokens) - 1
		c.tokens[c.next] = c.tokens[last]
		c.tokens = c.tokens[:last]
	}
}

func (w *worker) count(err error) {
	w.wrong.Add(1)
	kind := "other: " + err.Error()
	var f *fault
	if errors.As(err, &f) {
		kind = f.kind
	}
	w.errors[kind]++
}

// transport names a failure without a response by its cause alone: addresses and ports
// would make each failure a kind of its own.
func transport(step string, err error) error {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return &fault{step + ": " + text}
}
