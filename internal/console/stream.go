package console

import (
	"bytes"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
)

// A stream makes a page grow until it is over. It needs no script: the answer ends late.
type stream struct {
	// next returns the items since the last call, and whether they are the last.
	next func(ctx context.Context) (items []any, done bool, err error)
	item string // their template
	end  string // the template of what follows the last; it gets whether there was a last one
}

// Limits of pages that grow. Each looks once in the interval, as any other request does.
const (
	maxStreams     = 4
	streamTime     = 10 * time.Minute
	streamInterval = time.Second
)

// more is where a page grows.
const more template.HTML = "<!-- more -->"

// follow sends a page that grows.
func (c *Console) follow(w http.ResponseWriter, r *request, a reply) {
	select {
	case c.streams <- struct{}{}:
		defer func() { <-c.streams }()
	default:
		c.write(w, r, reply{status: http.StatusTooManyRequests, page: failurePage{Kind: "busy", RequestID: r.id}})
		return
	}
	whole, err := c.render(r, a.page)
	if err != nil {
		c.broken(w, r, err)
		return
	}
	head, tail, _ := bytes.Cut(whole, []byte(more))
	ctx, cancel := context.WithTimeout(r.outer, streamTime)
	defer cancel()
	out := http.NewResponseController(w)
	// The deadlines of the server are for answers that end soon. A connection that takes
	// nothing any more ends with these.
	limit := c.Now().Add(streamTime + requestTime)
	_, _ = out.SetReadDeadline(limit), out.SetWriteDeadline(limit)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	send := func(text []byte) bool {
		_, err := w.Write(text)
		return err == nil && out.Flush() == nil
	}
	if !send(head) {
		return
	}
	every := time.NewTicker(c.interval)
	defer every.Stop()
	finished := false
	for going := true; going; {
		items, done, err := c.look(ctx, r, a.stream)
		var text bytes.Buffer
		for _, item := range items {
			if err == nil {
				err = r.execute(&text, a.stream.item, item)
			}
		}
		finished = done && err == nil
		if going = err == nil && !done; text.Len() > 0 && !send(text.Bytes()) {
			return
		}
		if going {
			select {
			case <-ctx.Done():
				going = false
			case <-every.C:
			}
		}
	}
	var text bytes.Buffer
	if err := r.execute(&text, a.stream.end, finished); err == nil {
		send(append(text.Bytes(), tail...))
	}
}

// look makes one look of a page that grows, as the operator is now: a session that has
// ended sees nothing more.
func (c *Console) look(ctx context.Context, r *request, s *stream) ([]any, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	free, err := c.slot(ctx)
	if err != nil {
		return nil, false, err
	}
	defer free()
	r.session, r.who, r.now = nil, nil, c.now()
	if err := c.identify(ctx, r); err != nil {
		return nil, false, err
	}
	if r.who == nil {
		return nil, false, errNotFound
	}
	return s.next(ctx)
}

// A watchPage waits for the first requests of a client.
type watchPage struct {
	adminapi.Client
	Issuer   string
	Programs []program
	Command  string
}

// A watchedItem is a request, and how far the client has got.
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
	seen := 0
	next := func(ctx context.Context) (items []any, done bool, err error) {
		var v adminapi.Watch
		if err := c.get(ctx, r, &v, nil, "clients", id, "watch"); err != nil {
			return nil, false, err
		}
		for ; seen < len(v.Requests); seen++ {
			items = append(items, watchedItem{v.Requests[seen], v.Stages})
		}
		return items, v.Finished, nil
	}
	return reply{page: p, stream: &stream{next, "watched", "watchEnd"}}, nil
}

// A followPage shows records of the audit log as they are written.
type followPage struct {
	Back    string
	Command string
}

// shownBefore is how many earlier records a page begins with that follows the audit log.
const shownBefore = 10

func (c auditPages) followAudit(_ context.Context, r *request) (reply, error) {
	s := readAuditSearch(r.URL.Query())
	p := followPage{Back: s.address("/audit", 0), Command: s.command(r) + " --follow"}
	var last uint64
	next := func(ctx context.Context) ([]any, bool, error) {
		query := s.query(c.Now(), adminapi.MaxPage)
		if last == 0 {
			query.Set("limit", strconv.Itoa(shownBefore))
		}
		fresh, err := c.since(ctx, r, query, last)
		var items []any
		for _, row := range rows(fresh) {
			last = row.Seq
			items = append(items, row)
		}
		return items, false, err
	}
	return reply{page: p, stream: &stream{next, "record", "followEnd"}}, nil
}

// since returns the records of a search after a number, the earliest first.
func (c auditPages) since(ctx context.Context, r *request, query url.Values, last uint64) ([]audit.Entry, error) {
	var answer adminapi.AuditRecords
	err := c.get(ctx, r, &answer, query, "audit")
	fresh := slices.DeleteFunc(answer.Records, func(e audit.Entry) bool { return e.Seq <= last })
	slices.Reverse(fresh)
	return fresh, err
}
