package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// A cluster is a PostgreSQL of the suite with two databases, the nodes' and pgbench's.
type cluster struct {
	server *pgtest.Server
	admin  *pgx.Conn // to the nodes' database
}

const (
	nodesDatabase   = "tokens"
	pgbenchDatabase = "yardstick"
)

func (k *cluster) url() string { return k.server.URL(nodesDatabase) }

// open implements opener.
func (k *cluster) open(ctx context.Context, _ string) (store.Store, error) {
	return postgres.Create(ctx, postgres.Database{URL: k.url()}, nil)
}

// newCluster starts the server, as Debian configures it.
func newCluster(ctx context.Context) (_ *cluster, err error) {
	server, err := pgtest.Start()
	if err != nil {
		return nil, err
	}
	k := &cluster{server: server}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.stop())
		}
	}()
	first, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer first.Close(ctx)
	for _, name := range []string{nodesDatabase, pgbenchDatabase} {
		if _, err := first.Exec(ctx, `CREATE DATABASE `+name); err != nil {
			return nil, err
		}
	}
	k.admin, err = pgx.Connect(ctx, k.url())
	return k, err
}

func (k *cluster) stop() error {
	if k.admin != nil {
		k.admin.Close(context.Background())
	}
	return k.server.Stop()
}

// fillSQL makes grants as long as the nodes', with ids that pgbench can compute.
const fillSQL = `INSERT INTO grants (id, realm, client, subject, scope, authorized_at, auth_time, claims, generation, version, rotated_at, key_id,
	expires_at, delete_after, access_floor, attempt, state, reason)
	SELECT substr(sha256(n::text::bytea), 1, 16), $1, $2, repeat('s', 36), $3, n, 0, '', 1, 1, n, n, n, n, 0, n, 1, 0 FROM generate_series(1, $4) AS n`

// fill creates the same table for pgbench.
func (k *cluster) fill(ctx context.Context, client string, grants int) error {
	url := k.server.URL(pgbenchDatabase)
	st, err := postgres.Create(ctx, postgres.Database{URL: url}, nil)
	if err != nil {
		return err
	}
	if err := st.Close(); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, fillSQL, realm, client, scope, grants); err != nil {
		return err
	}
	for _, c := range []*pgx.Conn{conn, k.admin} {
		if _, err := c.Exec(ctx, `ANALYZE grants`); err != nil {
			return err
		}
	}
	return nil
}

// pgbenchScript is the update that a refresh makes: one row by its key.
const pgbenchScript = `\set n random(1, %d)
\set v random(1, 1000000000)
UPDATE grants SET generation = :v, version = :v, rotated_at = :v, key_id = :v, expires_at = :v, delete_after = :v, access_floor = :v,
	state = 1, reason = 0, attempt = :v WHERE id = substr(sha256(:n::text::bytea), 1, 16);
`

func pgbenchName(clients int) string { return fmt.Sprintf("pgbench-%d", clients) }

// pgbench runs the update with a number of clients.
func (k *cluster) pgbench(ctx context.Context, clients, grants int, d time.Duration) (m measured, err error) {
	script, err := os.CreateTemp("", "mintage-bench-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.Remove(script.Name())) }()
	if _, err := fmt.Fprintf(script, pgbenchScript, grants); err != nil {
		return m, err
	}
	if err := script.Close(); err != nil {
		return m, err
	}
	out, err := exec.CommandContext(ctx, "/usr/lib/postgresql/15/bin/pgbench", "--no-vacuum", "--protocol=prepared", "--file="+script.Name(),
		fmt.Sprintf("--client=%d", clients), fmt.Sprintf("--jobs=%d", min(clients, 2)),
		fmt.Sprintf("--time=%d", int(math.Ceil(d.Seconds()))), k.server.URL(pgbenchDatabase)).CombinedOutput()
	if err != nil {
		return m, errors.Join(ctx.Err(), fmt.Errorf("pgbench: %w\n%s", err, out))
	}
	return readPgbench(out)
}

// readPgbench reads the final output of pgbench.
func readPgbench(out []byte) (m measured, err error) {
	find := func(text string) (v float64) {
		found := regexp.MustCompile(text).FindSubmatch(out)
		if found == nil {
			err = errors.Join(err, fmt.Errorf("pgbench: no %q in\n%s", text, out))
			return 0
		}
		v, _ = strconv.ParseFloat(string(found[1]), 64)
		return v
	}
	rate := find(`(?m)^tps = ([\d.]+) `)
	requests := find(`(?m)^number of transactions actually processed: (\d+)`)
	failed := find(`(?m)^number of failed transactions: (\d+)`)
	mean := find(`(?m)^latency average = ([\d.]+) ms`)
	if err == nil && (failed > 0 || rate == 0) {
		err = fmt.Errorf("pgbench: %.0f transactions failed\n%s", failed, out)
	}
	if err != nil {
		return m, err
	}
	m.Result = &bench.Result{Requests: int64(requests), Elapsed: time.Duration(requests / rate * float64(time.Second))}
	m.Latency.Add(time.Duration(mean * float64(time.Millisecond)))
	return m, nil
}

// A work is the work that the database server has done so far.
type work struct{ wal, images, syncs, commits int64 }

func (w work) since(b work) work {
	return work{w.wal - b.wal, w.images - b.images, w.syncs - b.syncs, w.commits - b.commits}
}

// work reads the server's statistics. Those of a running session may be missing.
func (k *cluster) work(ctx context.Context) (w work, err error) {
	err = k.admin.QueryRow(ctx, `SELECT pg_current_wal_lsn() - '0/0', wal_fpi, wal_sync, (SELECT xact_commit FROM pg_stat_database WHERE datname = $1)
		FROM pg_stat_wal`, nodesDatabase).Scan(&w.wal, &w.images, &w.syncs, &w.commits)
	return w, err
}

// processors returns the processor time of each process of the server.
func (k *cluster) processors(ctx context.Context) (map[int]time.Duration, error) {
	rows, err := k.admin.Query(ctx, `SELECT pid FROM pg_stat_activity`)
	if err != nil {
		return nil, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil, err
	}
	used := map[int]time.Duration{}
	for _, pid := range pids {
		// The process may have ended since.
		if u, err := bench.ReadUsage(pid); err == nil {
			used[pid] = u.CPU
		}
	}
	return used, nil
}

// sessions returns the number of the nodes' connections.
func (k *cluster) sessions(ctx context.Context) (n int, err error) {
	err = k.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()`, nodesDatabase).Scan(&n)
	return n, err
}

// quiet waits until no node is connected.
func (k *cluster) quiet(ctx context.Context) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		switch n, err := k.sessions(ctx); {
		case n == 0 || err != nil:
			return err
		case time.Now().After(end):
			return fmt.Errorf("%d sessions of nodes that were stopped do not end", n)
		}
	}
}

// rows are the bytes that the grants occupy on disk.
type rows struct{ grants, table, key, indexes int64 }

func (k *cluster) rows(ctx context.Context) (r rows, err error) {
	err = k.admin.QueryRow(ctx, `SELECT count(*), pg_relation_size('grants'), pg_relation_size('grants_pkey'), pg_relation_size('grants_by_subject') + pg_relation_size('grants_by_client')
		FROM grants`).Scan(&r.grants, &r.table, &r.key, &r.indexes)
	return r, err
}
