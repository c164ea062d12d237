package admin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/store"
)

// This file holds what APIs and trusts share: both are rows of the directory that depend
// on other rows.

// rowAttempts is how often a change of a row is tried while others change the directory.
// Every other change is a conflict, also one of another row, and a tool makes several at
// once: of those that compete, one succeeds in each attempt.
const rowAttempts = 50

// rewrite stores the row that write makes from the present directory, with an event about
// about(row). The commit requires an unchanged directory; after a conflict, rewrite retries.
func rewrite[T interface{ Entry() store.Entry }](ctx context.Context, a *Admin, kind, id string, about func(T) string, write func(*directory.View) (T, changeRecord, error)) (next T, err error) {
	for range rowAttempts {
		view, err := a.view(ctx)
		if err != nil {
			return next, err
		}
		var how changeRecord
		if next, how, err = write(view); err != nil || how.none {
			return next, err
		}
		err = a.commit(ctx, store.Change{Expect: view.Version(), Entries: []store.Entry{next.Entry()}}, a.event(a.now(), how.name, about(next), how.detail))
		if !errors.Is(err, store.ErrConflict) {
			return next, err
		}
	}
	return next, changed(kind, id)
}

// list returns a page of rows, and whether more follow. The argument follow returns the
// rows after p.After, and whether that row exists. p.Match must be contained in one of the
// texts that texts returns for a row.
func list[T any](ctx context.Context, a *Admin, p adminapi.Page, follow func(*directory.View) (iter.Seq[*T], bool), texts func(*T) []string) (rows []T, more bool, err error) {
	if err := p.Check(); err != nil {
		return nil, false, err
	}
	view, err := a.view(ctx)
	if err != nil {
		return nil, false, err
	}
	rest, found := follow(view)
	if p.After != "" && !found {
		rest = nil
	}
	page, more, err := pick(p, rest, func(row *T) bool { return matchesPage(p, texts(row)...) })
	for _, row := range page {
		rows = append(rows, *row)
	}
	return rows, more, err
}

// isGone reports whether a use case failed because its object does not exist.
func isGone(err error) bool {
	var gone *Error
	return errors.As(err, &gone) && gone.Code == NotFound
}

func changed(kind, id string) error {
	return &Error{Changed, kind, id, fmt.Sprintf("%s %q was changed by somebody else at this moment; nothing was done", kind, id)}
}

func etagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// matches reports whether If-Match with an ETag permits a change (RFC 9110 section
// 13.1.1); "" is no condition.
func matches(etag, present string) bool { return etag == "" || etag == "*" || etag == present }

// A changeRecord says how a change is recorded: its event, and what is committed with it.
type changeRecord struct {
	name    store.EventName
	detail  string
	cutoffs []store.Cutoff
	held    []store.Document // committed with the change
	none    bool             // nothing has to be written
}
