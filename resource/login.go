package resource

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Authentication says how the user of a token must have signed in (RFC 9470). The zero
// value requires nothing.
type Authentication struct {
	// MaxAge is the maximum age of the sign-in, in whole seconds. 0: any age.
	MaxAge time.Duration
	// ACR lists the accepted classes (acr), the preferred one first. They are compared as
	// strings, so list every accepted class. Empty: any class.
	ACR []string
}

// valid returns an error for values that a challenge cannot contain.
func (a Authentication) valid() error {
	for _, class := range a.ACR {
		if class == "" || !quotable(class) || strings.Contains(class, " ") {
			return fmt.Errorf("%q is no acr", class)
		}
	}
	if a.MaxAge < 0 || a.MaxAge%time.Second != 0 {
		return errors.New("MaxAge: whole seconds")
	}
	return nil
}

// Check returns an error that wraps ErrInsufficientLogin unless the login of p's user meets
// the requirements of a. It is for callers of [Verifier.Verify].
func (a Authentication) Check(p Principal, now time.Time) error {
	switch {
	case a.MaxAge != 0 && (p.AuthTime.IsZero() || now.Sub(p.AuthTime) > a.MaxAge):
		return fmt.Errorf("%w: too long ago, or at an unknown time", ErrInsufficientLogin)
	case len(a.ACR) > 0 && !slices.Contains(a.ACR, p.ACR):
		return fmt.Errorf("%w: of another class", ErrInsufficientLogin)
	}
	return nil
}

// challenge returns the members of a challenge (RFC 9470 section 3).
func (a Authentication) challenge() (text string) {
	if len(a.ACR) > 0 {
		text = `, acr_values="` + strings.Join(a.ACR, " ") + `"`
	}
	if a.MaxAge > 0 {
		text += `, max_age="` + strconv.FormatInt(int64(a.MaxAge/time.Second), 10) + `"`
	}
	return text
}
