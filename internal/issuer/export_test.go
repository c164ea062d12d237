package issuer

// SetFeedLimit bounds the grants, and the cutoffs, of the list of revocations.
func (iss *Issuer) SetFeedLimit(n int) { iss.Feed.limit = n }
