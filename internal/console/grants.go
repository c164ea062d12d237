package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/adminapi"
)

// grantPages are the pages about grants and about the sessions in which they were made.
type grantPages struct{ *Console }

// A grantsPage lists the grants of a subject, of a client or of both, and the sessions of
// a subject.
type grantsPage struct {
	Subject, Client string
	Asked           bool
	Grants          []adminapi.Grant
	Sessions        []adminapi.Session
	More            string // address of the next page; ""
	EndAll          string // address of the page that asks; "": there is nothing to end
	view
}

const listSize = 50

func (c grantPages) grants(ctx context.Context, r *request) (reply, error) {
	q := r.URL.Query()
	p := grantsPage{Subject: strings.TrimSpace(q.Get("subject")), Client: strings.TrimSpace(q.Get("client")), view: r.view(r.mintage("grant list", "--subject NAME"))}
	if p.Subject == "" && p.Client == "" {
		return reply{page: p}, nil
	}
	p.Asked, p.Command = true, r.mintage("grant list")+ofWhom(p.Subject, p.Client)
	query := url.Values{"limit": {strconv.Itoa(listSize)}}
	setIf(query, "subject", p.Subject)
	setIf(query, "client_id", p.Client)
	setIf(query, "after", q.Get("after"))
	var answer struct {
		Grants []adminapi.Grant
		Next   string
	}
	if err := c.get(ctx, r, &answer, query, "grants"); err != nil {
		return reply{}, err
	}
	p.Grants = answer.Grants
	whom := url.Values{}
	setIf(whom, "subject", p.Subject)
	setIf(whom, "client", p.Client)
	if len(p.Grants) > 0 {
		p.EndAll = "/grants/end?" + whom.Encode()
	}
	if answer.Next != "" {
		whom.Set("after", answer.Next)
		p.More = "/grants?" + whom.Encode()
	}
	if p.Subject != "" && p.Client == "" {
		if err := c.get(ctx, r, &p, url.Values{"subject": {p.Subject}}, "sessions"); err != nil {
			return reply{}, err
		}
	}
	return reply{page: p}, nil
}

// filtered returns the query of a page of a list, and the flags of the command that
// lists the same from its beginning. Empty filters are left out.
func filtered(after, match, state string) (query url.Values, flags string) {
	query = url.Values{"limit": {strconv.Itoa(listSize)}}
	setIf(query, "match", match)
	setIf(query, "state", state)
	setIf(query, "after", after)
	if match != "" {
		flags += " --match " + quoteValue(match)
	}
	if state != "" {
		flags += " --state " + quoteValue(state)
	}
	return query, flags
}

// ofWhom returns the flags of a subject and a client.
func ofWhom(subject, client string) (flags string) {
	if subject != "" {
		flags += " --subject " + quoteValue(subject)
	}
	if client != "" {
		flags += " --client " + quoteValue(client)
	}
	return flags
}

// grant shows the explanation of a grant.
func (c grantPages) grant(ctx context.Context, r *request) (reply, error) {
	id := r.PathValue("grant")
	p := explainedPage{OfGrant: true, view: r.view(r.mintage("explain", quote(id)))}
	// Find the grant first: explain would explain another kind of id as well.
	var g adminapi.Grant
	if err := c.get(ctx, r, &g, nil, "grants", id); err != nil {
		return reply{}, err
	}
	err := c.post(ctx, r, adminapi.ExplainRequest{Text: g.ID, Recent: true}, &p.Explanation, "explain")
	return reply{page: p}, err
}

func (c grantPages) askEndGrant(ctx context.Context, r *request) (askPage, act, error) {
	var g adminapi.Grant
	err := c.get(ctx, r, &g, nil, "grants", r.PathValue("grant"))
	return askPage{question: endGrantQuestion, Back: "/grants/" + url.PathEscape(g.ID), Command: r.mintage("grant revoke", quote(g.ID)),
			Facts: []fact{{Name: "Grant", Value: g.ID, Code: true}, {Name: "Client", Value: g.ClientID}, {Name: "Subject", Value: g.Subject}, {Name: "Scope", Value: g.Scope}}},
		func() (string, error) {
			return "/grants?" + url.Values{"subject": {g.Subject}, "done": {"grant"}}.Encode(), c.remove(ctx, r, nil, "grants", g.ID)
		}, err
}

// maxCounted is after how many grants countGrants stops.
const maxCounted = 10000

// countGrants counts the active grants of a subject, a client or both.
func (c *Console) countGrants(ctx context.Context, r *request, subject, client string) (count, error) {
	query := url.Values{"limit": {strconv.Itoa(adminapi.MaxPage)}}
	setIf(query, "subject", subject)
	setIf(query, "client_id", client)
	n := count{Kind: "grants"}
	for read := 0; read < maxCounted; {
		var answer struct {
			Grants []struct{ State string }
			Next   string
		}
		if err := c.get(ctx, r, &answer, query, "grants"); err != nil {
			return n, err
		}
		for _, g := range answer.Grants {
			if g.State == "active" {
				n.N++
			}
		}
		if read += len(answer.Grants); answer.Next == "" {
			return n, nil
		}
		query.Set("after", answer.Next)
	}
	n.More = true
	return n, nil
}

// askEndGrants asks before all grants of a subject, a client or both end.
func (c grantPages) askEndGrants(ctx context.Context, r *request) (askPage, act, error) {
	subject, client := r.FormValue("subject"), r.FormValue("client")
	if subject == "" && client == "" {
		return askPage{}, nil, errNotFound
	}
	n, err := c.countGrants(ctx, r, subject, client)
	whom := url.Values{}
	setIf(whom, "subject", subject)
	setIf(whom, "client", client)
	p := askPage{question: endGrantsQuestion, N: &n, Back: "/grants?" + whom.Encode(), Command: r.mintage("grant revoke") + ofWhom(subject, client)}
	for _, f := range []fact{{Name: "Subject", Value: subject}, {Name: "Client", Value: client}} {
		if f.Value != "" {
			p.Facts = append(p.Facts, f)
		}
	}
	return p, func() (string, error) {
		return p.Back + "&done=grants", c.post(ctx, r, adminapi.CutoffRequest{Subject: subject, ClientID: client}, nil, "cutoffs")
	}, err
}

// askEndUserSession asks before a session of a subject ends. A POST does not read the
// session: the admin API reports whether it exists.
func (c grantPages) askEndUserSession(ctx context.Context, r *request) (askPage, act, error) {
	in := adminapi.SessionRequest{Subject: r.FormValue("subject"), Session: r.FormValue("session")}
	if in.Session == "" { // the API would end all sessions
		return askPage{}, nil, errNotFound
	}
	of := url.Values{"subject": {in.Subject}}
	end := func() (string, error) {
		return "/grants?" + of.Encode() + "&done=session", c.post(ctx, r, in, nil, "sessions", "end")
	}
	if r.Method == http.MethodPost {
		return askPage{}, end, nil
	}
	var sessions struct{ Sessions []adminapi.Session }
	if err := c.get(ctx, r, &sessions, of, "sessions"); err != nil {
		return askPage{}, nil, err
	}
	i := slices.IndexFunc(sessions.Sessions, func(s adminapi.Session) bool { return s.Session == in.Session })
	if i < 0 {
		return askPage{}, nil, errNotFound
	}
	s, active := sessions.Sessions[i], count{Kind: "grants"}
	for _, g := range s.Grants {
		if g.State == "active" {
			active.N++
		}
	}
	return askPage{question: userSessionQuestion, N: &active, Back: "/grants?" + of.Encode(), Command: r.mintage("session end") + " --subject " + quoteValue(in.Subject) + " " + quote(in.Session),
		Facts: []fact{{Name: "Session", Value: s.Session, Code: true}, {Name: "Subject", Value: s.Subject}, {Name: "Began", At: s.Began}}}, end, nil
}
