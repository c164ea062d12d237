package issuer

import "context"

// SetFeedLimit limits the number of grants, and of cutoffs, in the list of revocations.
func (iss *Issuer) SetFeedLimit(n int) { iss.Feed.limit = n }

// Look is what Run does at each interval.
func (e *Ends) Look(ctx context.Context) (more bool, err error) { return e.look(ctx) }
