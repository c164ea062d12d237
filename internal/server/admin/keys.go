package admin

import (
	"time"

	"github.com/mintage/mintage/internal/admin"
)

func listKeys(x *call, u *admin.Admin) (any, error) {
	views, err := u.Keys(x.Context())
	return list{name: "keys", items: views}, err
}

// A rotateRequest is the body of POST /admin/v1/keys/rotate.
type rotateRequest struct {
	Purposes []string `json:"purposes"` // all that rotate if absent
	In       string   `json:"in"`       // as soon as every verifier can know them if absent
}

func rotateKeys(x *call, u *admin.Admin, in rotateRequest) (any, error) {
	d, err := admin.Positive("in", in.In)
	if err != nil {
		return nil, err
	}
	added, err := u.RotateKeys(x.Context(), in.Purposes, d)
	return list{name: "added", items: admin.ViewKeyChanges(added)}, err
}

// A withdrawRequest is the body of POST /admin/v1/keys/withdraw.
type withdrawRequest struct {
	Keys     []string `json:"keys"`
	Purposes []string `json:"purposes"`
	All      bool     `json:"all"`
	DryRun   bool     `json:"dry_run"` // do nothing but to count
}

// A withdrawAnswer says what a withdrawal ends, or would end.
type withdrawAnswer struct {
	Withdrawn []admin.KeyChange `json:"withdrawn"`
	Added     []admin.KeyChange `json:"added"`
	// Grants and JWTGrants are absent if they could not be counted.
	Grants    *int `json:"grants,omitempty"`
	JWTGrants *int `json:"jwt_grants,omitempty"`
}

func withdrawKeys(x *call, u *admin.Admin, in withdrawRequest) (any, error) {
	w, err := u.Withdrawal(in.Keys, in.Purposes, in.All)
	if err != nil {
		return nil, err
	}
	done, err := u.WithdrawKeys(x.Context(), w, in.DryRun)
	if err != nil {
		return nil, err
	}
	answer := withdrawAnswer{Withdrawn: admin.ViewKeyChanges(done.Keys), Added: admin.ViewKeyChanges(done.Added)}
	x.takeTime()
	ended, err := u.EndedBy(x.Context(), done.Keys)
	if err == nil {
		answer.Grants, answer.JWTGrants = &ended.Grants, &ended.JWTs
	} else if x.uncounted(err); in.DryRun {
		return nil, err
	}
	return answer, nil
}

// takeTime lifts the limit of time for an answer that reads every grant.
func (x *call) takeTime() { _ = x.out.SetWriteDeadline(time.Time{}) }

// uncounted logs that a change was made, but not counted what it ends: another
// status would have the caller make it again.
func (x *call) uncounted(err error) {
	x.log.Warn("cannot count what a change ends", "request_id", x.id, "path", x.path, "error", err)
}
