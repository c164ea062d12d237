package metrics

import "slices"

// A Kind is what the numbers of a family are.
type Kind string

const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// A Family is one metric of the reference: what it is called, what its labels
// say, and when somebody should look. Names and labels are what dashboards and
// alerts of operators rely on: they are added, and never change their meaning.
type Family struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
	Worry  string // when it deserves attention, for people; empty: it is for looking closer
}

// Names of the families, each used where it is made.
const (
	httpDuration     = "http_server_request_duration_seconds"
	tokenRequests    = "mintage_token_requests_total"
	tokensIssued     = "mintage_tokens_issued_total"
	refreshes        = "mintage_refreshes_total"
	refreshRepeats   = "mintage_refresh_repeats_total"
	replays          = "mintage_replays_total"
	storeBehind      = "mintage_store_behind_total"
	revocations      = "mintage_revocations_total"
	introspections   = "mintage_introspections_total"
	authFailures     = "mintage_client_auth_failures_total"
	logins           = "mintage_login_attempts_total"
	throttled        = "mintage_throttled_total"
	shed             = "mintage_shed_total"
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
	restoreUntil     = "mintage_restore_until_timestamp_seconds"
	auditWritten     = "mintage_audit_written_total"
	auditLost        = "mintage_audit_lost_total"
	buildInformation = "mintage_build_info"
)

// families is the reference, in the order in which people read it.
var families = []Family{
	{httpDuration, Histogram, []string{"http_route", "http_request_method", "http_response_status_code"},
		"How long requests to the public listener took, by the endpoint's name and never by its path.",
		"The 99th percentile stays above a second, or more than one answer in a hundred has a 5xx status."},

	{tokenRequests, Counter, []string{"grant_type", "result"},
		"Requests to the token endpoint; result is ok or the error code that the client was told.",
		"The share of invalid_grant or invalid_client grows: a client lost its tokens or its secret."},
	{tokensIssued, Counter, []string{"type", "format"},
		"New tokens; a repeated answer holds none.", ""},
	{refreshes, Counter, nil,
		"Refresh requests that were answered with a new pair.", ""},
	{refreshRepeats, Counter, nil,
		"Refresh requests of clients that had lost their answer, answered with the same pair again.",
		"More than a few in a hundred of all refreshes: answers get lost on their way, or two parties use one grant."},
	{replays, Counter, []string{"kind"},
		"Codes and refresh tokens that were presented again after their use; each ended its grant.",
		"Ever: each is a thief, or a client that keeps old tokens. The audit trail names the client and where it came from."},
	{storeBehind, Counter, nil,
		"Genuine tokens of which the store has no record, answered 503: commits are lost.",
		"Ever: an older copy of the store was put in place, or a replica promoted that lacked commits."},
	{revocations, Counter, []string{"by"},
		"Grants, or their access tokens, that ended before their time through this node. Commands write to the store themselves and are not counted.", ""},
	{introspections, Counter, []string{"active"},
		"Introspection requests that were answered, by what was said of the token.", ""},
	{authFailures, Counter, []string{"reason"},
		"Requests whose client could not be authenticated; the client is told none of the reasons.",
		"wrong_secret grows: somebody guesses, or a client was given a wrong secret. expired_secret: a client still uses a secret that has run out."},
	{logins, Counter, []string{"result"},
		"Attempts of users to log in.",
		"wrong grows without ok: somebody guesses passwords. failed: who knows the users cannot be reached."},
	{throttled, Counter, []string{"limit"},
		"Requests that were refused with 429 or made to wait, by the limit that they met.",
		"It goes on for long: an honest party has met a limit, or somebody guesses."},
	{shed, Counter, []string{"what"},
		"Requests and connections that were turned away because too much was under way.",
		"It grows: the node is asked for more than it can do."},
	{requestsNow, Gauge, []string{"state"},
		"Requests that are worked on at this moment, or wait for their turn.",
		"waiting stays above zero: the node has as much to do as it can."},
	{clientRequests, Counter, []string{"client_id", "result"},
		"Token requests by client, if management.metrics_clients is set: the first so many clients that got tokens have their own label, the rest is other.", ""},

	{storeDuration, Histogram, []string{"operation"},
		"How long the store took for an operation, the wait for its turn included.",
		"The 99th percentile of update_grant stays above half a second."},
	{storeFaults, Counter, []string{"kind"},
		"Operations on the store that failed: busy if surely nothing was written, other if that is not known.",
		"Ever; each was answered 503 and will be asked again."},
	{storeBatch, Histogram, nil,
		"Writes that were committed together.", ""},
	{storeQueue, Gauge, nil,
		"Operations that wait for the store at this moment.",
		"It stays in the thousands: at 4096 more are refused."},
	{sweepLag, Gauge, []string{"table"},
		"Time since expired rows were last removed from the whole table, or since the start.",
		"More than a few hours, unless a restore is in force: nothing is removed then. The table grows."},
	{sweepRemoved, Counter, []string{"table"},
		"Expired rows that were removed.", ""},

	{ready, Gauge, nil,
		"1 if this node should be sent requests, as /readyz says.",
		"0 for more than a minute."},
	{directoryAge, Gauge, nil,
		"Time since this node last heard from its store of clients, cutoffs and keys.",
		"More than 5: requests are answered 503 until it has news."},
	{clockFault, Gauge, nil,
		"1 if this node's clock is off by what most other nodes say; it is not ready then.",
		"1: set the clock by NTP."},
	{keyAge, Gauge, []string{"kid", "purpose"},
		"How long the key in use has been in use.", ""},
	{keyExpiry, Gauge, []string{"kid", "purpose"},
		"When the key in use is followed by another one.", ""},
	{keysDue, Gauge, nil,
		"Keys that should have been made by now, and are not.",
		"More than 0 for minutes: the server cannot write keys, and the present ones are used for too long."},
	{secretExpiry, Gauge, []string{"client_id", "secret", "replaced"},
		"When a client's secret runs out; replaced says whether another one of the client's outlives it. Up to 200 that end next.",
		"One that is not replaced ends within two weeks: its client cannot get tokens from then on."},
	{certificate, Gauge, nil,
		"When the certificate of the public listener runs out, if it speaks TLS.",
		"Within two weeks, or whatever your renewal leaves."},
	{restoreUntil, Gauge, nil,
		"Until when the latest declared restore excuses what the store has lost. Only while it does.",
		"Later than you expect: the removal of expired rows waits for it."},
	{auditWritten, Counter, nil,
		"Records that were written to the audit trail.", ""},
	{auditLost, Counter, nil,
		"Records that could not be written to the audit trail, which says so itself.",
		"Ever: the disk is full or slow, and the trail has a gap."},
	{buildInformation, Gauge, []string{"version", "go_version"},
		"1; the labels say what runs.", ""},
}

// Families lists every metric of Mintage's own. Those of Go and of the process
// (go_..., process_...) come beside them.
func Families() []Family { return slices.Clone(families) }

func family(name string) Family {
	i := slices.IndexFunc(families, func(f Family) bool { return f.Name == name })
	if i < 0 {
		panic("metrics: no family " + name)
	}
	return families[i]
}
