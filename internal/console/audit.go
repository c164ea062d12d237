package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf16"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
)

// auditPages are the pages about the audit log.
type auditPages struct{ *Console }

// An auditPage searches the audit log.
type auditPage struct {
	Search  auditSearch
	Events  []string
	Records []audit.Entry
	Older   string // address of the older records; "": none
	First   string // address of the newest records; "": this page shows them
	Export  string
	Most    int // maximum number of records in an export
	Follow  string
	Head    *adminapi.AuditHead
	Command string
	Off     bool // there is no audit log
}

// An auditSearch holds the filters of a search in the audit log; "" does not filter.
type auditSearch struct{ Event, Client, Subject, Grant, Request, Since string }

// auditAges are the periods to which Since can limit a search.
var auditAges = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour}

const auditPageSize = 50

func readAuditSearch(q url.Values) auditSearch {
	s := auditSearch{Event: q.Get("event"), Client: q.Get("client"), Subject: q.Get("subject"), Grant: q.Get("grant"), Request: q.Get("request"), Since: q.Get("since")}
	if auditAges[s.Since] == 0 {
		s.Since = ""
	}
	return s
}

// fields returns the filters in the order of the form: each with its value, its console
// parameter, its admin API parameter and its command flag.
func (s auditSearch) fields() [][4]string {
	return [][4]string{{s.Event, "event", "event", "--event"}, {s.Client, "client", "client_id", "--client"}, {s.Subject, "subject", "subject", "--subject"},
		{s.Grant, "grant", "grant_id", "--grant"}, {s.Request, "request", "request_id", "--request"}}
}

// address returns the address of a page of the search.
func (s auditSearch) address(path string, before uint64) string {
	q := url.Values{}
	for _, f := range s.fields() {
		if f[0] != "" {
			q.Set(f[1], f[0])
		}
	}
	if s.Since != "" {
		q.Set("since", s.Since)
	}
	if before != 0 {
		q.Set("before", strconv.FormatUint(before, 10))
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// query returns the search as query parameters of the admin API.
func (s auditSearch) query(now time.Time, limit int) url.Values {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	for _, f := range s.fields() {
		if f[0] != "" {
			q.Set(f[2], f[0])
		}
	}
	if age := auditAges[s.Since]; age != 0 {
		q.Set("since", now.Add(-age).UTC().Format(time.RFC3339))
	}
	return q
}

// command returns the command that runs the same search.
func (s auditSearch) command(r *request) string {
	text := r.mintage("audit show")
	for _, f := range s.fields() {
		if f[0] != "" {
			text += " " + f[3] + " " + quoteValue(f[0])
		}
	}
	if s.Since != "" {
		text += " --since " + s.Since
	}
	return text
}

func (c auditPages) auditLog(ctx context.Context, r *request) (reply, error) {
	s := readAuditSearch(r.URL.Query())
	p := auditPage{Search: s, Command: s.command(r), Export: s.address("/audit/export", 0), Most: c.export, Follow: s.address("/audit/follow", 0)}
	for _, name := range audit.Names() {
		p.Events = append(p.Events, string(name))
	}
	slices.Sort(p.Events)
	query := s.query(c.Now(), auditPageSize)
	if before := r.URL.Query().Get("before"); before != "" {
		query.Set("before", before)
		p.First = s.address("/audit", 0)
	}
	var answer adminapi.AuditRecords
	if err := c.get(ctx, r, &answer, query, "audit"); isKind(err, "no-audit-log") {
		p.Off = true
		return reply{page: p}, nil
	} else if err != nil {
		return reply{}, err
	}
	p.Records = answer.Records
	if answer.Next != 0 {
		p.Older = s.address("/audit", answer.Next)
	}
	var head adminapi.AuditHead
	if r.all() && c.get(ctx, r, &head, nil, "audit", "head") == nil {
		p.Head = &head
	}
	return reply{page: p}, nil
}

// maxExport bounds the records of an export.
const maxExport = 10 * adminapi.MaxPage

// exportAudit returns the records of a search as JSON lines. There is no CSV: a
// spreadsheet could run text that comes from a client as a formula.
func (c auditPages) exportAudit(ctx context.Context, r *request) (reply, error) {
	query := readAuditSearch(r.URL.Query()).query(c.Now(), adminapi.MaxPage)
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for n := 0; n < c.export; {
		var answer adminapi.AuditRecords
		if err := c.get(ctx, r, &answer, query, "audit"); err != nil {
			return reply{}, err
		}
		for _, e := range answer.Records {
			if err := enc.Encode(e); err != nil {
				return reply{}, err
			}
		}
		if n += len(answer.Records); answer.Next == 0 {
			break
		}
		query.Set("before", strconv.FormatUint(answer.Next, 10))
	}
	return reply{file: &file{"audit-" + c.Now().UTC().Format("20060102T150405Z") + ".jsonl", "application/jsonl", escaped(text.Bytes())}}, nil
}

// escaped escapes the characters in JSON that change how a terminal or an editor shows the
// text around them. The JSON encoder has already escaped U+0000 to U+001F.
func escaped(text []byte) []byte {
	return regexp.MustCompile(hiddenIn).ReplaceAllFunc(text, func(c []byte) (out []byte) {
		for _, unit := range utf16.Encode([]rune(string(c))) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
		return out
	})
}

// hiddenIn matches invisible characters that JSON allows without an escape (RFC 8259
// section 7).
const hiddenIn = `[\x{7f}-\x{9f}\p{Cf}\p{Zl}\p{Zp}]`
