package metrics

import (
	"slices"
	"strings"
)

// A Kind is the type of a family.
type Kind string

const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// A Family describes one metric on the reference page: its name, its labels, and
// when an operator should act. Dashboards and alerts rely on names and labels: new
// ones are added, and none changes its meaning.
type Family struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
	Worry  string // when to act, for people; empty: for analysis only
}

// Names of the families.
const (
	httpDuration     = "http_server_request_duration_seconds"
	tokenRequests    = "mintage_token_requests_total"
	tokensIssued     = "mintage_tokens_issued_total"
	refreshes        = "mintage_refreshes_total"
	refreshRepeats   = "mintage_refresh_repeats_total"
	refreshShared    = "mintage_refresh_shared_total"
	replays          = "mintage_replays_total"
	proofs           = "mintage_dpop_proofs_total"
	storeBehind      = "mintage_store_behind_total"
	revocations      = "mintage_revocations_total"
	introspections   = "mintage_introspections_total"
	authFailures     = "mintage_client_auth_failures_total"
	logins           = "mintage_login_attempts_total"
	devices          = "mintage_device_authorizations_total"
	logouts          = "mintage_logouts_total"
	logoutTokens     = "mintage_logout_tokens_total"
	logoutFailing    = "mintage_logout_clients_failing"
	logoutWaiting    = "mintage_logout_oldest_seconds"
	throttled        = "mintage_throttled_total"
	shed             = "mintage_shed_total"
	fetches          = "mintage_client_document_fetches_total"
	requestsNow      = "mintage_requests"
	clientRequests   = "mintage_client_token_requests_total"
	storeDuration    = "mintage_store_operation_duration_seconds"
	storeFaults      = "mintage_store_faults_total"
	storeBatch       = "mintage_store_batch_size"
	storeQueue       = "mintage_store_queue_depth"
	sweepLag         = "mintage_sweep_lag_seconds"
	sweepRemoved     = "mintage_sweep_removed_total"
	ready            = "mintage_ready"
	directoryAge     = "mintage_directory_age_seconds"
	clockFault       = "mintage_clock_fault"
	keyAge           = "mintage_key_age_seconds"
	keyExpiry        = "mintage_key_expiry_timestamp_seconds"
	keysDue          = "mintage_keys_due"
	secretExpiry     = "mintage_client_secret_expiry_timestamp_seconds"
	certificate      = "mintage_certificate_expiry_timestamp_seconds"
	certOverdue      = "mintage_certificate_overdue"
	certRefused      = "mintage_certificate_refused"
	restoreUntil     = "mintage_restore_until_timestamp_seconds"
	auditWritten     = "mintage_audit_written_total"
	auditLost        = "mintage_audit_lost_total"
	auditFault       = "mintage_audit_fault"
	auditLeftOut     = "mintage_audit_left_out_total"
	buildInformation = "mintage_build_info"
)

// ofRealms are the families that also have the label realm, if there are several realms.
var ofRealms = []string{
	httpDuration, tokenRequests, tokensIssued, refreshes, refreshRepeats, refreshShared, replays, proofs, storeBehind, revocations, introspections,
	authFailures, logins, devices, logouts, logoutTokens, logoutFailing, logoutWaiting, throttled, clientRequests, secretExpiry,
}

// OfRealms reports whether a family also has the label realm, if there are several realms.
func (f Family) OfRealms() bool { return slices.Contains(ofRealms, f.Name) }

// families are all families, in the order of the reference page.
var families = []Family{
	{httpDuration, Histogram, []string{"http_route", "http_request_method", "http_response_status_code"},
		"Duration of requests to the public listener, by the name of the endpoint.",
		"The 99th percentile stays above a second, or more than one answer in a hundred has a 5xx status."},

	{tokenRequests, Counter, []string{"grant_type", "result"},
		"Requests to the token endpoint; result is ok or the error code of the answer.",
		"The share of invalid_grant or invalid_client grows: a client lost its tokens or its secret."},
	{tokensIssued, Counter, []string{"type", "format"},
		"Tokens issued; a repeated answer issues none.", ""},
	{refreshes, Counter, nil,
		"Refresh requests answered with a new pair.", ""},
	{refreshRepeats, Counter, nil,
		"Refresh requests answered with the same pair again, because the client lost the first answer.",
		"More than a few in a hundred of all refreshes: answers are lost, or two parties use one grant."},
	{refreshShared, Counter, nil,
		"Refresh requests with an earlier token, answered under the client's reuse_grace: two processes hold copies of one token.",
		"For a client whose users run one process: somebody else may hold the token. The audit log has the grants and the addresses."},
	{replays, Counter, []string{"kind"},
		"Replayed codes and refresh tokens; each ended its grant.",
		"Ever: each is a thief, or a client that keeps old tokens. The audit log has the client and its address."},
	{proofs, Counter, []string{"result"},
		"Proofs of keys (DPoP): accepted, invalid, replayed, or without the nonce that authorization.dpop_nonce demands. A node knows what others have seen only with such nonces.",
		"Replayed ones: somebody has recorded requests of a client. Many invalid ones: a client whose clock or address is wrong; the log names the rule."},
	{storeBehind, Counter, nil,
		"Authentic tokens that the store has no record of, answered 503: commits were lost.",
		"Ever: an older copy of the store was put in place, or a replica promoted that lacked commits."},
	{revocations, Counter, []string{"by"},
		"Grants, or their access tokens, that were ended early through this node. Commands write to the store directly and are not counted.", ""},
	{introspections, Counter, []string{"active"},
		"Introspection requests answered, by the result.", ""},
	{authFailures, Counter, []string{"reason"},
		"Requests whose client could not be authenticated; the answer does not contain the reason.",
		"wrong_secret grows: an attacker guesses, or a client has a wrong secret. expired_secret: a client still uses an expired secret."},
	{logins, Counter, []string{"result"},
		"Attempts of users to log in.",
		"wrong grows without ok: an attacker guesses passwords. failed: the system that authenticates the users cannot be reached."},
	{devices, Counter, []string{"result"},
		"Device authorizations: requested by a device, allowed or denied by the user, wrong code, or limited because the user or the network has entered too many.",
		"wrong or limited grows: an attacker guesses user codes."},
	{logouts, Counter, []string{"result"},
		"Logouts, by result: ended (a session); asked if the user has to confirm the request of a client; denied by the user; refused if the request is not valid.",
		"refused: a client sends an id_token or an address that is not its own; its log line names the defect."},
	{logoutTokens, Counter, []string{"result"},
		"Attempts to deliver a logout token to a client, by result: delivered; refused if the client answered 400; pending if it will be retried; given_up after 24 hours; dropped if the client no longer receives logout tokens, or if tokens for single sessions replace it.",
		"given_up, ever: a client did not receive a logout token. refused: a client does not accept logout tokens; its log says why."},
	{logoutFailing, Gauge, nil,
		"Clients that did not accept the last attempt to deliver a logout token. Of several nodes, one delivers; the others report 0.",
		"It stays above zero: a client's backchannel_logout_uri cannot be reached, and its users stay signed in there."},
	{logoutWaiting, Gauge, nil,
		"Age of the oldest undelivered logout token; 0 if there is none. Of several nodes, one delivers.",
		"More than a few minutes."},
	{throttled, Counter, []string{"limit"},
		"Requests that were answered 429 or delayed, by the limit that they exceeded.",
		"It continues: an honest client exceeds a limit, or an attacker guesses."},
	{fetches, Counter, []string{"outcome"},
		"Documents fetched from addresses that clients name, by outcome: ok, forbidden (an address that is not globally reachable), unreachable, or unusable.",
		"forbidden grows: somebody tries to reach this machine's networks through it; unreachable grows for all: this machine does not reach the Internet."},
	{shed, Counter, []string{"what"},
		"Requests and connections that were shed because the node was overloaded.",
		"It grows: the load exceeds the capacity of the node."},
	{requestsNow, Gauge, []string{"state"},
		"Requests that are being processed, or are queued.",
		"waiting stays above zero: the node is at its capacity."},
	{clientRequests, Counter, []string{"client_id", "result"},
		"Token requests by client, if management.metrics_clients is set: the first clients that received tokens have their own label, up to that number; all others are other, and clients that registered themselves self_registered.", ""},

	{storeDuration, Histogram, []string{"operation"},
		"Duration of store operations, including the time in the queue.",
		"The 99th percentile of update_grant stays above half a second."},
	{storeFaults, Counter, []string{"kind"},
		"Store operations that failed: busy if certainly nothing was written, other if the outcome is unknown.",
		"Ever; each was answered 503, and the client will retry."},
	{storeBatch, Histogram, nil,
		"Writes per group commit.", ""},
	{storeQueue, Gauge, nil,
		"Operations that are queued for the store.",
		"It stays near limits.requests: the store is slow, or gets more than it can do."},
	{sweepLag, Gauge, []string{"table"},
		"Time since expired rows were last removed from the whole table, or since the start.",
		"More than a few hours: the table grows. While a restore is in force, nothing is removed."},
	{sweepRemoved, Counter, []string{"table"},
		"Expired rows removed.", ""},

	{ready, Gauge, nil,
		"1 if this node is ready for requests, as in /readyz.",
		"0 for more than a minute."},
	{directoryAge, Gauge, nil,
		"Time since this node last polled clients, cutoffs and keys from its store.",
		"More than 5: requests are answered 503 until a poll succeeds."},
	{clockFault, Gauge, nil,
		"1 if this node's clock differs from those of most other nodes; the node is not ready then.",
		"1: set the clock by NTP."},
	{keyAge, Gauge, []string{"kid", "purpose"},
		"Time since the active key became active.", ""},
	{keyExpiry, Gauge, []string{"kid", "purpose"},
		"When the successor of the active key becomes active.", ""},
	{keysDue, Gauge, nil,
		"Keys that are due and were not created.",
		"More than 0 for minutes: the server cannot write keys, and the active ones are used for too long."},
	{secretExpiry, Gauge, []string{"client_id", "secret", "replaced"},
		"When a client's secret expires; replaced says whether another secret of the client expires later. The next 200 at most.",
		"One that is not replaced expires within two weeks: its client cannot get tokens afterwards."},
	{certificate, Gauge, nil,
		"When the certificate of the public listener expires, if it uses TLS.",
		"Within two weeks, or the time that your renewal leaves."},
	{certOverdue, Gauge, nil,
		"1 when that certificate should have been renewed: 21 days are left, or a quarter of its life if that is less.",
		"1: its renewal has failed."},
	{certRefused, Gauge, nil,
		"1 while the files of tls.cert and tls.key cannot be used, have expired or are not valid yet, and an earlier certificate is in service.",
		"1 for minutes."},
	{restoreUntil, Gauge, nil,
		"When the latest declared restore ends, until which lost records are excused. Only while it is in force.",
		"Later than you expect: expired rows are not removed before."},
	{auditWritten, Counter, nil,
		"Records written to the audit log.", ""},
	{auditLost, Counter, nil,
		"Records that could not be written to the audit log, which counts them in a gap line.",
		"Ever: the disk is full or slow."},
	{auditFault, Gauge, nil,
		"1 while the audit log cannot be written, and records wait in memory, where a stop loses them.",
		"1 for minutes: the disk is full, or the directory cannot be written."},
	{auditLeftOut, Counter, []string{"reason"},
		"Records that were left out of the audit log on purpose, which counts them in a gap line: rate, more than the limit for one grant or user or for unauthenticated callers; space, the disk has little left.",
		"space: free some. rate, for long: somebody sends failing or repeated requests all the time."},
	{buildInformation, Gauge, []string{"version", "go_version"},
		"1; the labels are the version that runs.", ""},
}

// Families lists Mintage's own metrics. Those of Go and of the process (go_...,
// process_...) are exported as well.
func Families() []Family { return slices.Clone(families) }

func family(name string) Family {
	i := slices.IndexFunc(families, func(f Family) bool { return f.Name == name })
	if i < 0 {
		panic("metrics: no family " + name)
	}
	return families[i]
}

// A Label documents the values of a label.
type Label struct{ Family, Label, Values string }

// Labels lists the labels of all families in the order of Families. The values of closed
// sets are from counted.
func Labels() (list []Label) {
	said := map[string][]string{
		httpDuration:  {"the names of the endpoints, as in the log: `token request`, `introspection`, `authorization` ...; `request` is any other path", "`GET`, `HEAD`, `POST`, `OPTIONS`, `_OTHER`", "the status"},
		storeDuration: {words(operations)},
		requestsNow:   {words([]string{stateWorking, stateWaiting})},
		sweepLag:      {words(sweptTables)},
		auditLeftOut:  {words([]string{leftOutRate, leftOutSpace})},
		keyAge:        {"the key's id, as in `mintage keys list`", "`mac`, `seal`, `audit`, `pepper`, `ES256`, `EdDSA`, `RS256`"},
		keyExpiry:     {"as above", "as above"},
		secretExpiry:  {"the client's id", "the secret's id, as in `mintage client secret list`", "`true`, `false`"},
		clientRequests: {
			"the client's id, `self_registered` or `other`", words(append(slices.Clone(tokenResults), Other)),
		},
		buildInformation: {"what `mintage --version` says", "Go's version"},
	}
	for name, sets := range counted {
		for _, s := range sets {
			said[name] = append(said[name], words(s.all()))
		}
	}
	for _, f := range families {
		for i, label := range f.Labels {
			list = append(list, Label{f.Name, label, said[f.Name][i]})
		}
	}
	return list
}

func words(values []string) string { return "`" + strings.Join(values, "`, `") + "`" }
