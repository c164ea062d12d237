package server

import (
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// Told is what the token endpoint tells a client whose request of a grant type
// is refused: the status and the error code.
func Told(opt Options, grantType string, why grant.Refusal) (status int, code oauth.ErrorCode) {
	status, told := (&Server{opt: opt}).wireError(&exchange{grantType: grantType}, &grant.Refused{Why: why})
	return status, told.Code
}
