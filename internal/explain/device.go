package explain

import (
	"context"
	"fmt"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

// readDevice reads an authentic device code, and what the store has of it.
func readDevice(ctx context.Context, iss *issuer.Issuer, view *directory.View, text string, e *Explanation) error {
	code, d, err := issuer.DeviceCodes{Issuer: iss}.DeviceOf(ctx, view, text)
	if err != nil {
		return err
	}
	e.Genuine, e.Named, e.Device = true, true, d
	e.Token = issuer.Token{GrantID: code.GrantID, ClientID: code.ClientID, IssuedAt: code.IssuedAt, ExpiresAt: code.ExpiresAt}
	return nil
}

// readDevice explains what a poll with the device code would be answered now.
func (v *Explained) readDevice() adminapi.Reading {
	e, d := v.Explanation, v.Explanation.Device
	refused := func(told *oauth.Error, why, next string) adminapi.Reading {
		return adminapi.Reading{Verdict: "refused", Refusal: string(told.Code), Told: "400 " + string(told.Code), Why: why, Next: next}
	}
	again := "the user lets the device ask again"
	switch {
	case e.Grant != nil && e.Grant.State == grant.Revoked:
		return refused(oauth.ErrGrant, "it was redeemed, and the grant was revoked: "+e.Grant.Reason.String(), again)
	case e.Grant != nil:
		return adminapi.Reading{Verdict: "answered", Why: "it was redeemed on " + show.Instant(e.Grant.AuthorizedAt) + ": the same request gets the same pair as long as the retry window is open and the pair unused, and ends the grant later",
			Next: "the device refreshes"}
	case d == nil:
		return refused(oauth.ErrExpiredDevice, "nobody waits for it any more: it expired on "+show.Instant(e.Token.ExpiresAt), again)
	case d.Denied:
		return refused(oauth.ErrDenied, "the user has denied it", "nothing, if the user meant that; otherwise "+again)
	case d.Code == "" && e.Now >= d.ExpiresAt:
		return refused(oauth.ErrExpiredDevice, "no user has answered until "+show.Instant(d.ExpiresAt), again+", and enters the code within ten minutes")
	case d.Code == "":
		return adminapi.Reading{Verdict: "answered", Told: "400 " + string(oauth.AuthorizationPending), Why: fmt.Sprintf("no user has answered yet; it was asked for on %s from %s, and expires on %s", show.Instant(d.RequestedAt), d.From, show.Instant(d.ExpiresAt)),
			Next: "the user enters the user code at " + v.by.Config.PublicURL + v.by.Config.BasePath + "/device"}
	}
	return adminapi.Reading{Verdict: "answered", Why: "a user has allowed it, and the device has not polled since", Next: "the device polls: is it running, and does it send the code_verifier if it sent a code_challenge?"}
}
