package console

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
)

// Limits of pages with a stream. Each page polls once per interval, with a concurrency
// slot.
const (
	maxStreams     = 4
	streamTime     = 10 * time.Minute
	streamInterval = time.Second
)

// A streamResponse is the response of a page with a stream.
type streamResponse struct {
	*Console
	w http.ResponseWriter
	r *request
	*stream
}

// page sends a page, with the items of its stream as they come.
func (g streamResponse) page(page any) {
	whole, err := g.render(g.r, page)
	if err != nil {
		g.broken(g.w, g.r, err)
		return
	}
	head, tail, _ := bytes.Cut(whole, []byte(more))
	g.answer("text/html; charset=utf-8", func(send func([]byte) bool) {
		if !send(head) {
			return
		}
		finished, gone := g.pollLoop(0, func(text []byte, _ uint64) bool { return send(text) })
		var text bytes.Buffer
		if err := g.r.execute(&text, g.end, finished); err == nil && !gone {
			send(append(text.Bytes(), tail...))
		}
	})
}

func asksForEvents(r *http.Request) bool { return r.Header.Get("Accept") == eventStream }

const eventStream = "text/event-stream"

// events sends the items of a stream as server-sent events. If the response ends early,
// the browser requests it again, with the number of the last event in Last-Event-ID.
func (g streamResponse) events() {
	last, _ := strconv.ParseUint(g.r.Header.Get("Last-Event-ID"), 10, 64)
	g.answer(eventStream, func(send func([]byte) bool) {
		// Send a first byte: until then, the browser does not open the event stream.
		if !send([]byte(":\n\n")) {
			return
		}
		finished, gone := g.pollLoop(last, func(text []byte, last uint64) bool {
			return send(event("id: "+strconv.FormatUint(last, 10)+"\n", text))
		})
		var text bytes.Buffer
		if err := g.r.execute(&text, g.end, true); err == nil && finished && !gone {
			send(event("event: end\n", text.Bytes()))
		}
	})
}

// event returns an event whose data is text.
func event(fields string, text []byte) []byte {
	out := []byte(fields)
	for line := range bytes.Lines(text) {
		out = append(append(out, "data: "...), bytes.TrimRight(line, "\r\n")...)
		out = append(out, '\n')
	}
	return append(out, '\n')
}

// answer begins the response, and calls body with a function that writes to it. It answers
// with status 429 if maxStreams others are open.
func (g streamResponse) answer(kind string, body func(send func([]byte) bool)) {
	if !g.begin() {
		g.write(g.w, g.r, reply{status: http.StatusTooManyRequests, page: failurePage{Kind: "busy", RequestID: g.r.id}})
		return
	}
	defer func() { <-g.streams }()
	out := http.NewResponseController(g.w)
	// The server's deadlines are for short responses. These end a connection whose browser no
	// longer reads.
	limit := g.Now().Add(streamTime + requestTime)
	_, _ = out.SetReadDeadline(limit), out.SetWriteDeadline(limit)
	g.w.Header().Set("Content-Type", kind)
	body(func(text []byte) bool {
		_, err := g.w.Write(text)
		return err == nil && out.Flush() == nil
	})
}

// begin takes a stream slot, and waits at most one interval for it: the stream that a
// reload replaces ends late. It tries without waiting first, because select chooses one of
// two ready cases at random.
func (g streamResponse) begin() bool {
	select {
	case g.streams <- struct{}{}:
		return true
	default:
	}
	select {
	case g.streams <- struct{}{}:
		return true
	case <-time.After(g.interval):
		return false
	}
}

// pollLoop polls for new items and sends them, until the stream is complete, something fails,
// or streamTime has passed. It returns whether the stream is complete, and whether the
// browser has closed the connection.
func (g streamResponse) pollLoop(last uint64, send func(text []byte, last uint64) bool) (finished, gone bool) {
	ctx, cancel := context.WithTimeout(g.r.outer, streamTime)
	defer cancel()
	every := time.NewTicker(g.interval)
	defer every.Stop()
	g.r.polled = true
	for {
		var items []any
		done := false
		err := g.poll(ctx, func(ctx context.Context) (err error) {
			items, last, done, err = g.next(ctx, last)
			return err
		})
		var text bytes.Buffer
		for _, item := range items {
			if err == nil {
				err = g.r.execute(&text, g.item, item)
			}
		}
		if text.Len() > 0 && !send(text.Bytes(), last) {
			return false, true
		}
		if err != nil || done {
			return err == nil, false
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-every.C:
		}
	}
}

// poll polls once for a stream. It authenticates the operator again, so that a session
// that has ended receives nothing more.
func (g streamResponse) poll(ctx context.Context, next func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	free, err := g.slot(ctx)
	if err != nil {
		return err
	}
	defer free()
	g.r.session, g.r.who, g.r.now = nil, nil, g.now()
	if err := g.identify(ctx, g.r); err != nil {
		return err
	}
	if g.r.who == nil {
		return errNotFound
	}
	return next(ctx)
}

// A watchPage waits for the first requests of a client.
type watchPage struct {
	adminapi.Client
	Issuer   string
	Programs []program
	Command  string
}

// A watchedItem is a request, with the stages that the client has reached.
type watchedItem struct {
	adminapi.WatchedRequest
	Stages []adminapi.Stage
}

func (c clientPages) watch(ctx context.Context, r *request) (reply, error) {
	id := r.PathValue("client")
	p := watchPage{Command: r.mintage("client watch", quote(id))}
	if err := c.get(ctx, r, &p.Client, nil, "clients", id); err != nil {
		return reply{}, err
	}
	var err error
	if p.Issuer, err = c.issuer(ctx, r); err != nil {
		return reply{}, err
	}
	p.Programs = programsOf(p.Client, p.Issuer)
	next := func(ctx context.Context, last uint64) (items []any, now uint64, done bool, err error) {
		var v adminapi.Watch
		if err := c.get(ctx, r, &v, nil, "clients", id, "watch"); err != nil {
			return nil, last, false, err
		}
		if now = uint64(len(v.Requests)); last > now {
			last = 0 // the server has restarted
		}
		for _, request := range v.Requests[last:] {
			items = append(items, watchedItem{request, v.Stages})
		}
		return items, now, v.Finished, nil
	}
	return reply{page: p, stream: &stream{next, "watched", "watchEnd"}}, nil
}

// A followPage shows records of the audit log as they are written.
type followPage struct {
	Back    string
	Command string
}

// shownBefore is how many earlier records a followPage begins with.
const shownBefore = 10

func (c auditPages) followAudit(_ context.Context, r *request) (reply, error) {
	s := readAuditSearch(r.URL.Query())
	p := followPage{Back: s.address("/audit", 0), Command: s.command(r) + " --follow"}
	looked := false
	next := func(ctx context.Context, last uint64) (items []any, now uint64, done bool, err error) {
		query := s.query(c.Now(), adminapi.MaxPage)
		if last == 0 && !looked {
			query.Set("limit", strconv.Itoa(shownBefore))
		}
		looked = true
		fresh, err := c.since(ctx, r, query, last)
		for _, row := range rows(fresh) {
			last = row.Seq
			items = append(items, row)
		}
		return items, last, false, err
	}
	return reply{page: p, stream: &stream{next, "record", "followEnd"}}, nil
}

// since returns the records of a search whose number is above last, the earliest first.
func (c auditPages) since(ctx context.Context, r *request, query url.Values, last uint64) ([]audit.Entry, error) {
	var answer adminapi.AuditRecords
	err := c.get(ctx, r, &answer, query, "audit")
	fresh := slices.DeleteFunc(answer.Records, func(e audit.Entry) bool { return e.Seq <= last })
	slices.Reverse(fresh)
	return fresh, err
}
