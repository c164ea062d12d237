package conformance

import "slices"

// A Module is a test of the OpenID Foundation's conformance suite, with the tests here
// that correspond to it.
type Module struct {
	Plan, Name string
	// By names the tests that make the module's requests and checks. TestConformanceSuite
	// has a subtest with the module's name.
	By []string
	// Reason says why no test corresponds to the module, or what differs.
	Reason string
}

const (
	basicOP       = "Basic OP"
	configOP      = "Config OP"
	rpLogoutOP    = "RP-Initiated Logout OP"
	backChannelOP = "Back-Channel Logout OP"
	ownSuite      = "TestConformanceSuite"
	browserTest   = "TestRelyingParties"
)

// Modules are the modules of the suite's five plans that apply to this server, in the
// order of the plans (gitlab.com/openid/conformance-suite, 2026).
var Modules = slices.Concat(openIDModules, fapiModules)

var openIDModules = []Module{
	{Plan: basicOP, Name: "oidcc-server", By: []string{ownSuite, browserTest, "TestGoOIDCSignsAUserIn"}},
	{Plan: basicOP, Name: "oidcc-response-type-missing", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-idtoken-signature", By: []string{"TestGoOIDCSignsAUserIn", "TestOpenIDClientSignsAUserIn", "TestIDTokensFollowTheRegistration"}},
	{Plan: basicOP, Name: "oidcc-idtoken-unsigned", Reason: "id_tokens are always signed: no client can be registered for `none`, and the metadata do not list it; the suite skips the module"},
	{Plan: basicOP, Name: "oidcc-userinfo-get", By: []string{"TestCL02_UserInfoIsReadByGetAndPost"}},
	{Plan: basicOP, Name: "oidcc-userinfo-post-header", By: []string{"TestCL02_UserInfoIsReadByGetAndPost"}},
	{Plan: basicOP, Name: "oidcc-userinfo-post-body", By: []string{"TestCL02_UserInfoIsReadByGetAndPost"}},
	{Plan: basicOP, Name: "oidcc-ensure-request-without-nonce-succeeds-for-code-flow", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-scope-profile", By: []string{"TestCL01_UserInfoHasTheClaimsOfTheScope"}},
	{Plan: basicOP, Name: "oidcc-scope-email", By: []string{"TestCL01_UserInfoHasTheClaimsOfTheScope"}},
	{Plan: basicOP, Name: "oidcc-scope-address", By: []string{"TestCL01_UserInfoHasTheClaimsOfTheScope"}},
	{Plan: basicOP, Name: "oidcc-scope-phone", By: []string{"TestCL01_UserInfoHasTheClaimsOfTheScope"}},
	{Plan: basicOP, Name: "oidcc-scope-all", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-ensure-other-scope-order-succeeds", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-display-page", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-display-popup", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-prompt-login", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-prompt-none-not-logged-in", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-prompt-none-logged-in", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-max-age-1", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-max-age-10000", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-ensure-request-with-unknown-parameter-succeeds", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-id-token-hint", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-login-hint", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-ui-locales", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-claims-locales", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-ensure-request-with-acr-values-succeeds", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-codereuse", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-codereuse-30seconds", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-ensure-registered-redirect-uri", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-ensure-post-request-succeeds", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-server-client-secret-post", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-claims-essential", By: []string{ownSuite}},
	{Plan: basicOP, Name: "oidcc-ensure-request-object-with-redirect-uri", By: []string{ownSuite}, Reason: "request objects are refused, as the metadata say; a redirect URI in one has no effect"},
	{Plan: basicOP, Name: "oidcc-refresh-token", By: []string{ownSuite, browserTest}},
	{Plan: basicOP, Name: "oidcc-ensure-request-with-valid-pkce-succeeds", By: []string{ownSuite, browserTest}},

	{Plan: configOP, Name: "oidcc-discovery-endpoint-verification", By: []string{ownSuite, "TestMD13_MD14_EveryMemberIsKnownAndOfItsType", "TestOC02_OC08_MetadataOfAProvider", browserTest}},

	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout-discovery-endpoint-verification", By: []string{ownSuite, "TestLO07_TheMetadataNameTheEndpoint"}},
	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout", By: []string{ownSuite, "TestLO01_AHintOfThisSessionSignsTheUserOutWithoutAQuestion", browserTest}},
	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout-bad-post-logout-redirect-uri", By: []string{ownSuite, "TestLO04_RedirectsGoToRegisteredAddressesOnly"}},
	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout-modified-id-token-hint", By: []string{ownSuite, "TestLO04_RedirectsGoToRegisteredAddressesOnly"}},
	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout-no-id-token-hint", By: []string{ownSuite, "TestLO04_RedirectsGoToRegisteredAddressesOnly"}},
	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout-no-params", By: []string{ownSuite, "TestLO02_EveryOtherRequestAsksTheUser"}},
	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout-no-post-logout-redirect-uri", By: []string{ownSuite, "TestLO01_AHintOfThisSessionSignsTheUserOutWithoutAQuestion"}},
	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout-no-state", By: []string{ownSuite, "TestLO01_AHintOfThisSessionSignsTheUserOutWithoutAQuestion"}},
	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout-only-state", By: []string{ownSuite, "TestLO02_EveryOtherRequestAsksTheUser"}},
	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri", By: []string{ownSuite, "TestLO04_RedirectsGoToRegisteredAddressesOnly"}},
	{Plan: rpLogoutOP, Name: "oidcc-rp-initiated-logout-bad-id-token-hint", By: []string{ownSuite, "TestLO04_RedirectsGoToRegisteredAddressesOnly"}},

	{Plan: backChannelOP, Name: "oidcc-backchannel-logout-discovery-endpoint-verification", By: []string{"TestOC02_OC08_MetadataOfAProvider"}},
	{Plan: backChannelOP, Name: "oidcc-backchannel-rp-initiated-logout", By: []string{browserTest, "TestEachClientOfAnEndedSessionIsNotifiedOnce", "TestClaimsOfALogoutToken"}},
}
