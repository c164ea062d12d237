package admin

import (
	"net/http"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
)

func rotateKeys(x *call, u *admin.Admin, in adminapi.RotateRequest) (any, error) {
	d, err := admin.Positive("in", in.In)
	if err != nil {
		return nil, err
	}
	added, err := u.Keys().Rotate(x.Context(), in.Purposes, d)
	return list{name: "added", items: admin.ViewKeyChanges(added)}, err
}

func withdrawKeys(x *call, u *admin.Admin, in adminapi.WithdrawRequest) (any, error) {
	w, err := u.Keys().Withdrawal(in.Keys, in.Purposes, in.All)
	if err != nil {
		return nil, err
	}
	done, err := u.Keys().Withdraw(x.Context(), w, in.DryRun)
	if err != nil {
		return nil, err
	}
	answer := u.Keys().View(done)
	x.takeTime()
	ended, err := u.Keys().EndedBy(x.Context(), done.Keys)
	if err == nil {
		answer.Grants, answer.JWTGrants = &ended.Grants, &ended.JWTs
	} else if x.uncounted(err); in.DryRun {
		return nil, err
	}
	return answer, nil
}

// takeTime removes the write deadline, for an answer that requires reading every grant.
func (x *call) takeTime() { _ = http.NewResponseController(x.w).SetWriteDeadline(time.Time{}) }

// uncounted logs that a change succeeded, but that the grants which it ends could not be
// counted. The response reports success: after an error, the caller would repeat the change.
func (x *call) uncounted(err error) {
	x.log.Warn("cannot count the grants that a change ends", "request_id", x.id, "path", x.path, "error", err)
}
