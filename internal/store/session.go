package store

import (
	"context"
	"iter"

	"github.com/mintage/mintage/internal/grant"
)

// sessionPage is how many grants GrantsOfSession reads at once.
const sessionPage = 1000

// GrantsOfSubject reads all grants of a subject, by the index of subjects. It ends
// after an error.
func GrantsOfSubject(ctx context.Context, st Store, realm, subject string) iter.Seq2[grant.Grant, error] {
	return func(yield func(grant.Grant, error) bool) {
		f := GrantFilter{Realm: realm, Subject: subject, Limit: sessionPage}
		for {
			page, err := st.Grants(ctx, f)
			if err != nil {
				yield(grant.Grant{}, err)
				return
			}
			for _, g := range page {
				if !yield(g, nil) {
					return
				}
			}
			if len(page) < f.Limit {
				return
			}
			f.After = page[len(page)-1].ID
		}
	}
}

// GrantsOfSession returns the grants of a subject that refer to a session,
// whatever their state is.
func GrantsOfSession(ctx context.Context, st Store, realm, subject string, session [16]byte) (list []grant.Grant, err error) {
	for g, err := range GrantsOfSubject(ctx, st, realm, subject) {
		if err != nil {
			return nil, err
		}
		if g.Session == session && session != [16]byte{} {
			list = append(list, g)
		}
	}
	return list, nil
}

// DocumentsOfOwner reads all documents of a kind that belong to a subject. It ends
// after an error.
func DocumentsOfOwner(ctx context.Context, st Store, kind DocumentKind, owner Owner) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		f := DocumentFilter{Kind: kind, Owner: owner, Limit: sessionPage}
		for {
			page, err := st.Documents(ctx, f)
			if err != nil {
				yield(Document{}, err)
				return
			}
			for _, d := range page {
				if !yield(d, nil) {
					return
				}
			}
			if len(page) < f.Limit {
				return
			}
			f.After = page[len(page)-1].Key
		}
	}
}
