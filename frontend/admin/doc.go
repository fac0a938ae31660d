// Package admin is the plain HTTP frontend for operators: metrics, health and,
// when asked for, profiles. server starts one; it has no Session and does not
// touch the data path.
//
//	GET /metrics        Prometheus text (or OpenMetrics), from the registry handed in
//	GET /healthz        200 or 503 and a sentence; JSON with ?format=json or an Accept header that prefers it
//	GET /debug/pprof/   Go profiles, only with Options.Profiling
//
// Nothing here changes state, answers without a bound on time and size, or
// listens beyond loopback unless explicitly told to: there is no authentication,
// and metrics and profiles tell a stranger a lot.
package admin
