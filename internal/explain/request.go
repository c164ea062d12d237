package explain

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// maxLogLine is more than the server writes into one line, stacks included.
const maxLogLine = 1 << 20

// ReadLog returns the log lines about a request. A line may have a prefix before its
// JSON, as syslog and journalctl write it. Other lines are skipped.
func ReadLog(r io.Reader, requestID string) (*Log, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	needle := []byte(requestID)
	log := &Log{}
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line) < maxLogLine {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > 0 {
			log.Read++
		}
		if i := bytes.IndexByte(line, '{'); i >= 0 && bytes.Contains(line, needle) {
			var l adminapi.LogLine
			if json.Unmarshal(bytes.TrimSpace(line[i:]), &l) == nil && l.RequestID == requestID {
				log.Lines = append(log.Lines, l)
			}
		}
		line = line[:0]
		if errors.Is(err, io.EOF) {
			return log, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// findRequest collects the records of a request, and explains the grant that they
// name.
func (x *Explainer) findRequest(ctx context.Context, v *Explained, log *Log) error {
	q := &requestFacts{id: v.input.Text, log: log}
	v.request = q
	q.audit = x.audited(ctx, v, audit.Filter{RequestID: q.id})
	var ids []string
	note := func(id string) {
		if parsed, err := grant.ParseID(id); err == nil && parsed != (grant.ID{}) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	own := map[string]bool{} // ids of tokens of clients for themselves, which have no grant
	for _, a := range q.audit {
		if own[a.GrantID] = own[a.GrantID] || ofService(a); !own[a.GrantID] {
			note(a.GrantID)
		}
	}
	for _, l := range q.lines() {
		if !own[l.GrantID] && l.GrantType != store.GrantClientCredentials {
			note(l.GrantID)
		}
	}
	if len(ids) == 0 {
		return x.hint(ctx, q)
	}
	q.others = ids[1:]
	id, _ := grant.ParseID(ids[0])
	e, err := x.Grant(ctx, id)
	v.Explanation = &e
	return err
}

// audited reads the audit log of this machine. If it cannot read all of it, it sets
// auditNote, and the explanation lacks the other records.
func (x *Explainer) audited(ctx context.Context, v *Explained, f audit.Filter) (list []audit.Entry) {
	dir := x.Config.AuditDirectory()
	if dir == "" {
		v.auditNote = "the audit log is switched off (audit.directory)"
		return nil
	}
	f.Realms = x.Audited
	if x.Recent {
		list, next, err := audit.Last(ctx, dir, f, 0, adminapi.MaxPage)
		switch {
		case err != nil:
			v.auditNote = "the audit log is not complete: " + firstLine(err) + " (see: mintage audit verify)"
		case next != 0:
			v.auditNote = "the audit log is long, and only its end was read"
		}
		slices.Reverse(list)
		return list
	}
	for entry, err := range audit.Read(dir, f.Within(ctx)) {
		if err != nil {
			v.auditNote = "the audit log is not complete: " + firstLine(err) + " (see: mintage audit verify)"
			continue
		}
		list = append(list, entry)
	}
	if ctx.Err() != nil {
		v.auditNote = "the audit log was not read to its end: it took too long"
	}
	return list
}

// ofService reports whether the GrantID of an audit record is the id of a token that a client
// got for itself, and not of a grant. If such a token was issued for an assertion, its id
// contains the id of the trust.
func ofService(a audit.Entry) bool {
	id, _ := grant.ParseID(a.GrantID)
	return a.Event == audit.ServiceTokenIssued || a.Event == audit.ServiceTokenRevoked ||
		a.Event == audit.AssertionAccepted && strings.HasPrefix(a.Detail, "trust "+store.TrustOf(id))
}

// lines returns the lines of the log, if there is one.
func (q *requestFacts) lines() []adminapi.LogLine {
	if q.log == nil {
		return nil
	}
	return q.log.Lines
}

// refusal returns why a request was refused, from the log or the audit log, or "".
func (q *requestFacts) refusal() string {
	for _, l := range q.lines() {
		if reason := strings.TrimPrefix(l.Reason, "refused: "); reason != "" {
			return reason
		}
	}
	for _, a := range q.audit {
		if a.Outcome != audit.Success && a.Detail != "" {
			word, _, _ := strings.Cut(a.Detail, " ")
			word = strings.Trim(word, ":;,")
			if _, known := wordsOf(word); known {
				return word
			}
		}
	}
	return ""
}

// defect returns the error of a request that failed for a reason other than its grant. It is
// the error of a line in the log, such as "invalid_request: code_challenge missing", or else
// the detail of the audit record of a failed client authentication or assertion, or "".
func (q *requestFacts) defect() string {
	for _, l := range q.lines() {
		if l.Error != "" && l.Reason == "" {
			return show.Bounded(l.Error)
		}
	}
	for _, a := range q.audit {
		if a.Event == audit.ClientAuthFailed || strings.HasPrefix(a.Detail, "assertion's ") {
			return show.Bounded(a.Detail)
		}
	}
	return ""
}

// hint adds what the store has about the defect of a request: the secrets of a client
// that sent another one, and the APIs to which a refused scope belongs.
func (x *Explainer) hint(ctx context.Context, q *requestFacts) error {
	defect, id := q.defect(), ""
	for _, a := range q.audit {
		id = cmp.Or(id, a.ClientID)
	}
	for _, l := range q.lines() {
		id = cmp.Or(id, l.ClientID)
	}
	view, err := x.Directory.View()
	if err != nil || id == "" {
		return err
	}
	if strings.Contains(defect, "wrong_secret") || strings.Contains(defect, "expired_secret") { // see client.AuthFault
		c, err := x.Store.Client(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, s := range c.Secrets {
			use, expiry := "never used", "does not expire"
			if s.LastUsedAt != 0 {
				use = "last used " + show.Instant(s.LastUsedAt)
			}
			if s.ExpiresAt != 0 {
				expiry = "expires " + show.Instant(s.ExpiresAt)
			}
			if s.Expired(x.now()) {
				expiry = "expired " + show.Instant(s.ExpiresAt)
			}
			q.hints = append(q.hints, fmt.Sprintf("secret %s: %s, %s", s.ID, use, expiry))
		}
		q.hints = append(q.hints, fmt.Sprintf("client %s has %s: mintage client secret list %s; another one: mintage client secret add %s", id, show.Count(len(c.Secrets), "secret", "secrets"), id, id))
	}
	text, sent := strings.CutPrefix(defect, oauth.ErrScope.Error()+": it was ")
	if text, err = strconv.Unquote(text); !sent || err != nil {
		return nil // the log has no value
	}
	c, err := x.clientOf(ctx, view, id)
	if err != nil || c == nil {
		return err
	}
	if c.SelfRegistered() {
		return nil // no command gives it an API
	}
	for _, name := range strings.Fields(text) {
		for _, api := range view.APIs(x.Realm) {
			if !c.Scope.Has(name) && api.Scope().Has(name) {
				q.hints = append(q.hints, fmt.Sprintf("scope %s belongs to the API %s: mintage client update %s --add-api %s", name, api.ID, show.Quote(id), show.Quote(api.ID+" "+name)))
			}
		}
	}
	return nil
}

// defectAdvice is the advice for defects that are usual while a client is set up.
var defectAdvice = map[*oauth.Error]string{
	oauth.ErrNoChallenge:      "have the client send code_challenge and code_challenge_method=S256 (RFC 7636); an old client with a secret that cannot: mintage client update ID --no-pkce",
	oauth.ErrChallengeMethod:  "have the client send code_challenge_method=S256 beside its code_challenge",
	oauth.ErrUnknownClient:    "compare the client_id with: mintage client list; an https address is a client only if client_metadata.documents admits it (" + config.Page("how-to/mcp.md") + ")",
	oauth.ErrDisabledClient:   "the client registered itself, and an operator has disabled it; if that was not meant: mintage client enable ID",
	oauth.ErrTarget:           "have the client name an API that it may have (mintage api list; mintage client show ID); clients that describe themselves may have those with --self-registered-clients only. Of an identity assertion, audience and resource are those of its --id-jag",
	oauth.ErrRedirectMismatch: "have the client send a redirect_uri that is registered, character by character (mintage client show ID), or register it: mintage client update ID --add-redirect-uri URI",
	oauth.ErrScope:            "have the client ask for scopes that it is registered for (mintage client show ID), or register more: mintage client update ID --add-scope. Of an identity assertion, the scopes are those of its --id-jag; of an assertion of another issuer, those of the trust: mintage trust show ID",
	oauth.ErrLogoutHint:       "have the client send the id_token that it received from this issuer, as it is, or no id_token_hint: the user is then asked",
	oauth.ErrLogoutClient:     "have the client send its own client_id beside its id_token, or none",
	oauth.ErrLogoutRedirect:   "have the client send a post_logout_redirect_uri that is registered, character by character (mintage client show ID), or register it: mintage client update ID --add-post-logout-redirect-uri URI",
	oauth.ErrClientGrantType:  "mintage client show ID lists what it is registered for. Grant types never change: register another client, with --grant-types. A client may exchange tokens with --add-exchange-from alone, and present assertions if a trust names it: mintage trust list",
	oauth.ErrPushed:           "have the client push the request again when the user's browser is there, and use each request_uri once, with its own client_id",
	oauth.ErrNoProof:          "have the client send a proof (DPoP) by its key, as the code, the token or its registration requires: mintage client show ID, and " + config.Page("how-to/bind-tokens.md"),
	oauth.ErrClient:           headerAdvice,
	oauth.ErrMalformedValue:   "have the client send values in UTF-8 without control characters: often the line break at the end of a file with a secret or a token was sent along. At verify, it is the proxy that sends a wrong requirement: " + config.Page("reference/checking-tokens.md"),
}

// faultAdvice is the advice for a client that was not authenticated, by client.AuthFault:
// the log and the audit log name the fault within different texts.
var faultAdvice = map[string]string{
	"unknown_client":  "compare the client_id with: mintage client list, which lists those of one realm; a client that registered itself does so again",
	"client_disabled": "if that was not meant: mintage client enable ID",
	"wrong_method":    "have the client authenticate in the way that it is registered for: mintage client show ID",
	"wrong_secret":    newSecretAdvice,
	"expired_secret":  newSecretAdvice,
	", malformed":     headerAdvice,
}

// headerAdvice is the advice for an Authorization header that names no client.
const headerAdvice = "have the client authenticate in the form, or by one Authorization header: Basic, a space, and the base64 of ID:SECRET without a control character. Often the line break at the end of the secret's file was sent along, or a bearer token"

const newSecretAdvice = "have the client send a secret that it has now (mintage client secret list ID), or give it another one: mintage client secret add ID"

// Remedy returns why a request was refused, and what to do about it.
func Remedy(err error) (why, next string) {
	if refused, ok := errors.AsType[*grant.Refused](err); ok {
		w := refusalWords[refused.Why]
		return w.why, w.next
	}
	defect := show.Bounded(err.Error())
	return defect, adviceOn(defect)
}

func adviceOn(defect string) string {
	if strings.Contains(defect, "assertion's ") { // see client.GrantFault
		return "compare the claim with the trust: mintage trust list, and mintage trust test ASSERTION; the claims are in " + config.Page("reference/token-endpoint.md") + ", Assertions of other issuers"
	}
	if strings.Contains(defect, "wrong_assertion") {
		return "compare the claim with the client's registration (mintage client show ID) and " + config.Page("reference/token-endpoint.md") + ", Client assertions"
	}
	defect = strings.TrimPrefix(defect, login.ErrClientChanged.Error()+": ")
	for known, advice := range defectAdvice {
		if defect == known.Error() || strings.HasPrefix(defect, known.Error()+": ") {
			return advice
		}
	}
	for fault, advice := range faultAdvice {
		if strings.Contains(defect, fault) {
			return advice
		}
	}
	if strings.HasPrefix(defect, login.ErrDescription.Error()) {
		return "read the document at the client_id as anybody on the internet would; what it must say: " + config.Page("reference/authorization.md") + ", Clients that describe themselves"
	}
	return "see " + config.Page("reference/errors.md") + ", which names every error and its remedy"
}

// known reports whether any record was found.
func (q *requestFacts) known() bool { return len(q.audit)+len(q.lines()) > 0 }

// unknownAdvice returns advice about where else to look for a request.
func (v *Explained) unknownAdvice() string {
	advice := "look at the other nodes' audit logs, and at the log: mintage explain " + v.request.id + " --log FILE; in the journal: journalctl -u mintage -o cat | mintage explain " + v.request.id + " --log -"
	if log := v.request.log; log != nil {
		advice = "is it the log of the right server and time? Another one is read with: mintage explain " + v.request.id + " --log FILE"
	}
	return advice + "; the log holds refusals at log.level info and everything at debug"
}

// auditMissing reports whether this machine has no audit log.
func auditMissing(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// wordsOf finds the words about a refusal by its name.
func wordsOf(name string) (words, bool) {
	for why, w := range refusalWords {
		if why.String() == name {
			return w, true
		}
	}
	return words{}, false
}
