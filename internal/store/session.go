package store

import (
	"context"
	"iter"

	"github.com/mintage/mintage/internal/grant"
)

// pageLength is how many rows EachGrant and EachDocument read at once.
const pageLength = 1000

// EachGrant reads all grants that a filter selects, page by page; it ignores Limit. With a
// Subject, engines use the index of subjects. It ends after an error.
func EachGrant(ctx context.Context, st Store, f GrantFilter) iter.Seq2[grant.Grant, error] {
	f.Limit = pageLength
	return paged(func(last *grant.Grant) ([]grant.Grant, error) {
		if last != nil {
			f.After = last.ID
		}
		return st.Grants(ctx, f)
	})
}

// EachDocument reads all documents that a filter selects, page by page; it ignores Limit.
// It ends after an error.
func EachDocument(ctx context.Context, st Store, f DocumentFilter) iter.Seq2[Document, error] {
	f.Limit = pageLength
	return paged(func(last *Document) ([]Document, error) {
		if last != nil {
			f.After = last.Key
		}
		return st.Documents(ctx, f)
	})
}

// paged calls read with the last row of the page before until a page is not full.
func paged[T any](read func(last *T) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for last := (*T)(nil); ; {
			page, err := read(last)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
			if len(page) < pageLength {
				return
			}
			last = &page[len(page)-1]
		}
	}
}
