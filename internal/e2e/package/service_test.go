//go:build e2e

package packaging

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// exposed lists what systemd-analyze security still reports, with reason: a token service
// has clients on the network and a database, it gives its socket to a group, and reads
// /proc/sys/net/core/somaxconn. Removing a line of the unit's sandbox adds to the list.
var exposed = []string{
	"SystemCallFilter=~@privileged", "RootDirectory=/RootImage=", "SupplementaryGroups=", "RestrictAddressFamilies=~AF_UNIX",
	"RestrictAddressFamilies=~AF_(INET|INET6)", "ProcSubset=", "PrivateNetwork=", "PrivateUsers=", "DeviceAllow=", "IPAddressDeny=",
}

func TestTheUnitLeavesOpenOnlyWhatTheServiceNeeds(t *testing.T) {
	t.Parallel()
	unit := filepath.Join(repository, "packaging/systemd/mintage.service")
	var checks []struct {
		Name     string
		Set      *bool
		Exposure any
	}
	if err := json.Unmarshal([]byte(output(t, "systemd-analyze", "security", "--offline=true", "--threshold=15", "--json=short", unit)), &checks); err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, c := range checks {
		if c.Set != nil && !*c.Set && c.Exposure != nil {
			open = append(open, c.Name)
		}
	}
	slices.Sort(open)
	slices.Sort(exposed)
	if !slices.Equal(open, exposed) {
		t.Errorf("systemd-analyze reports\n%s\nwant\n%s", strings.Join(open, "\n"), strings.Join(exposed, "\n"))
	}
}

const (
	inMachine = "/root/mintage.deb"
	settings  = `
public_url: https://127.0.0.1:8443
listen: 127.0.0.1:8443
tls:
  cert: /etc/mintage/tls.crt
  key: /etc/mintage/tls.key
management:
  listen: 127.0.0.1:9000
data: /var/lib/mintage
admin:
  listen: unix:/run/mintage/admin.sock
  group: mintage-admin
`
	// round defines the shell function token, which sends a token request as a client, and
	// gets a code as a login portal does.
	round = `
token() {
	curl --silent --show-error --fail --cacert /etc/mintage/tls.crt "https://127.0.0.1:8443/oauth2/access_token?realm=/api${again-}" \
		--data-urlencode "client_id=$id" --data-urlencode "client_secret=$secret" --data-urlencode redirect_uri=https://billing.example/callback "$@"
}
code=$(runuser -u portal -- curl --silent --fail --unix-socket /run/mintage/admin.sock http://admin/admin/v1/codes \
	--json "{\"client_id\":\"$id\",\"redirect_uri\":\"https://billing.example/callback\",\"subject\":\"alice\"}" | jq --raw-output .code)
`
)

// TestThePackageIsInstalledRunUpgradedAndRemoved tests the whole life of the Debian
// package on a machine with systemd, in the unit's real sandbox.
func TestThePackageIsInstalledRunUpgradedAndRemoved(t *testing.T) {
	t.Parallel()
	deb := filepath.Join(release(t), releasedDebian)
	m := boot(t)
	m.put(deb, inMachine, "600")

	// After the installation nothing runs, and its output names the next steps.
	out := m.run("dpkg --force-depends --install " + inMachine)
	for _, step := range []string{"public_url", "mintage config check", "systemctl enable --now mintage"} {
		if !strings.Contains(out, step) {
			t.Errorf("the installation's output does not contain %q:\n%s", step, out)
		}
	}
	m.fails("systemctl is-active mintage")
	m.run("systemd-analyze verify --man=no mintage.service; test -s /usr/share/man/man1/mintage-serve.1.gz; test -s /usr/share/man/man5/mintage.yaml.5.gz; mintage --version")
	if got := m.run("stat --format '%U:%G %a' /etc/mintage /etc/mintage/mintage.yaml"); got != "root:mintage 750\nroot:mintage 640\n" {
		t.Errorf("settings are\n%s", got)
	}
	if got := m.run("dpkg --verify mintage"); got != "" {
		t.Errorf("files differ from the package's: %s", got)
	}
	example := m.fails("runuser -u mintage -- mintage config check --config /etc/mintage/mintage.yaml")
	if !strings.Contains(example, "public_url: missing") || strings.Contains(example, "unknown") {
		t.Errorf("of the settings as they are installed, only an address and a certificate may be missing:\n%s", example)
	}

	m.run(`openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=mintage -addext subjectAltName=IP:127.0.0.1 \
		-keyout /etc/mintage/tls.key -out /etc/mintage/tls.crt 2>/dev/null
		chgrp mintage /etc/mintage/tls.key; chmod 640 /etc/mintage/tls.key; chmod 644 /etc/mintage/tls.crt
		useradd --system --groups mintage-admin portal; chmod 755 /etc/mintage`)
	m.write("/etc/mintage/mintage.yaml", "640", settings)
	m.run("runuser -u mintage -- mintage config check --config /etc/mintage/mintage.yaml; systemctl enable --now mintage")
	m.run("curl --silent --fail http://127.0.0.1:9000/readyz; test ! -e /var/lib/mintage/new-store")
	status := m.run("systemctl show mintage --property StatusText,NRestarts,ActiveState")
	if !strings.Contains(status, "StatusText=serving https://127.0.0.1:8443/oauth2/api") || !strings.Contains(status, "NRestarts=0") {
		t.Errorf("the service's status is: %s", status)
	}

	// The properties that systemd derives from lines of the unit that no other check
	// covers.
	properties := m.run("systemctl show mintage --property Type,Restart,RestartUSec,TimeoutStartUSec,TimeoutStopUSec,LimitNOFILE,StartLimitIntervalUSec,RemoveIPC | sort")
	if properties != "LimitNOFILE=65536\nRemoveIPC=yes\nRestart=on-failure\nRestartUSec=5s\nStartLimitIntervalUSec=0\nTimeoutStartUSec=10min\nTimeoutStopUSec=30s\nType=notify\n" {
		t.Errorf("the service is\n%s", properties)
	}

	client := m.run(`runuser -u mintage -- mintage client create --config /etc/mintage/mintage.yaml --json --no-pkce --name Billing --redirect-uri https://billing.example/callback --scope read`)
	m.write("/root/client.json", "600", client)
	m.run(`id=$(jq --raw-output .client_id /root/client.json); secret=$(jq --raw-output .client_secret /root/client.json)` + round + `
		token --data grant_type=authorization_code --data-urlencode "code=$code" >/root/pair.json
		token --data grant_type=refresh_token --data-urlencode "refresh_token=$(jq --raw-output .refresh_token /root/pair.json)" >/root/next.json
		runuser -u mintage -- mintage grant list --config /etc/mintage/mintage.yaml --subject alice | grep --quiet "$id"`)
	m.fails("runuser -u nobody -- curl --silent --fail --unix-socket /run/mintage/admin.sock http://admin/admin/v1/codes --json '{}'")

	// explain finds a request in the journal.
	m.run(`curl --silent --cacert /etc/mintage/tls.crt --output /dev/null --write-out '%header{x-request-id}' \
		'https://127.0.0.1:8443/oauth2/authorize?client_id=nobody' >/root/request`)
	m.await(`journalctl --no-pager -u mintage -o cat | mintage explain --config /etc/mintage/mintage.yaml "$(cat /root/request)" --log - | grep -q '^log (-)'`)
	// The page that explain names is installed, and so are the files for monitoring.
	m.run(`page=$(journalctl --no-pager -u mintage -o cat | mintage explain --config /etc/mintage/mintage.yaml "$(cat /root/request)" --log - | grep -o '/usr/share/doc/mintage/[a-z/-]*[.]md')
		test -n "$page"; test -s "$page"
		cd /usr/share/doc/mintage/packaging/monitoring; test -s dashboard.json; promtool test rules alerts_test.yaml`)
	// The scheduled backup of the page works as the page shows it.
	m.run(`page=/usr/share/doc/mintage/docs/how-to/back-up.md
		grep '^install --directory .*/var/backups/mintage$' $page | sh -eu
		awk '/^\140\140\140/ { f = "" } f != "" && !/^# / { print >f } /^# .etc.systemd/ { f = $2 }' $page
		systemctl daemon-reload; systemctl start mintage-backup; systemctl enable --now mintage-backup.timer; test -s /var/backups/mintage/*Z.db`)

	m.sandboxed()
	m.keepsWhatClientsHave()
	m.tellsTwoDeploymentsApart()
	m.keepsItsKeyReadable()
	m.keepsItsCertificate()
	m.recordsHonestTraffic()

	pid := m.run("systemctl show mintage --property MainPID")
	m.run("echo 'log: {level: debug}' >>/etc/mintage/mintage.yaml; systemctl reload mintage")
	m.await("journalctl --no-pager -u mintage | grep -q 'configuration reloaded'")
	if again := m.run("systemctl show mintage --property MainPID"); again != pid {
		t.Errorf("a reload has exchanged the process: %s, %s", pid, again)
	}

	// Upgrade the package to itself: the server runs as a new process, with the
	// operator's settings and all its data.
	m.run("dpkg --force-depends --force-confold --install " + inMachine)
	if again := m.run("systemctl show mintage --property MainPID"); again == pid {
		t.Error("after an upgrade, the old program still runs")
	}
	m.run(`systemctl is-active mintage; grep -q 'level: debug' /etc/mintage/mintage.yaml
		id=$(jq --raw-output .client_id /root/client.json); secret=$(jq --raw-output .client_secret /root/client.json)` + round + `
		token --data grant_type=refresh_token --data-urlencode "refresh_token=$(jq --raw-output .refresh_token /root/next.json)" >/root/last.json`)

	// Keep the key-encryption key apart from the store.
	m.run(`mv /var/lib/mintage/kek /etc/mintage/kek; chown root:root /etc/mintage/kek; chmod 600 /etc/mintage/kek
		mkdir /etc/systemd/system/mintage.service.d; cp /usr/share/doc/mintage/examples/*.conf /etc/systemd/system/mintage.service.d/
		sed -i 's/^listen:.*/listen: 127.0.0.1:443/' /etc/mintage/mintage.yaml
		systemctl daemon-reload; systemctl restart mintage; curl --silent --fail http://127.0.0.1:9000/readyz
		curl --silent --fail --cacert /etc/mintage/tls.crt https://127.0.0.1/oauth2/jwks | grep -q kid`)
	m.run("systemctl stop mintage; test ! -e /run/mintage")

	if log := m.run("journalctl --no-pager -u mintage | grep -v 'cannot use the new certificate'"); strings.Contains(log, `"level":"ERROR"`) || strings.Contains(log, "panic") {
		t.Errorf("the server's log holds an error:\n%s", log)
	}

	m.withoutItsDisk()

	m.run("systemctl start mintage; dpkg --remove mintage; test -e /var/lib/mintage/mintage.db; test -e /etc/mintage/mintage.yaml")
	m.fails("pidof mintage")
	out = m.run("dpkg --purge mintage; test -e /var/lib/mintage/mintage.db; test -e /etc/mintage/kek; test ! -e /etc/mintage/mintage.yaml; test ! -e /etc/systemd/system/multi-user.target.wants/mintage.service; id mintage")
	if !strings.Contains(out, "left as they are, with the user mintage: /var/lib/mintage /etc/mintage") {
		t.Errorf("a purge does not list the directories that it leaves:\n%s", out)
	}
	m.run("rm -r /var/lib/mintage /etc/mintage; dpkg --force-depends --install " + inMachine + "; dpkg --purge mintage; test ! -e /etc/mintage")
	m.fails("id mintage")

	// The data directory is a link to a disk that is not mounted. Neither the
	// installation nor an upgrade creates anything in its place.
	m.run("ln -s /mnt/disk/mintage /var/lib/mintage")
	for range 2 {
		m.run("dpkg --force-depends --install " + inMachine + "; test -L /var/lib/mintage; test ! -e /mnt/disk")
	}
	m.fails("systemctl start mintage")
	out = m.run("dpkg --purge mintage; test -L /var/lib/mintage; test ! -e /mnt/disk; id mintage")
	if !strings.Contains(out, "left as they are, with the user mintage: /var/lib/mintage\n") {
		t.Errorf("a purge does not say that the link is left, and with it the user to whom the disk belongs:\n%s", out)
	}
}

// keepsWhatClientsHave updates a list-valued setting of a client: removals must be
// explicit.
func (m *machine) keepsWhatClientsHave() {
	m.t.Helper()
	const update = "id=$(jq --raw-output .client_id /root/client.json); runuser -u mintage -- mintage client update --config /etc/mintage/mintage.yaml $id "
	if said := m.fails(update + "--redirect-uri https://billing.example/two </dev/null"); !strings.Contains(said, "removes https://billing.example/callback") || !strings.Contains(said, "--replace") {
		m.t.Errorf("an update that would remove a redirect URI says:\n%s", said)
	}
	m.run(update + "--add-redirect-uri https://billing.example/two --add-scope write")
	show := m.run("id=$(jq --raw-output .client_id /root/client.json); mintage client show --config /etc/mintage/mintage.yaml $id --json")
	for _, kept := range []string{"https://billing.example/callback", "https://billing.example/two", `"scope": "read write"`} {
		if !strings.Contains(show, kept) {
			m.t.Errorf("after adding, the client lost %s:\n%s", kept, show)
		}
	}
}

// tellsTwoDeploymentsApart runs a second deployment in a directory, beside the package's.
// Commands say which deployment they use, and doctor checks the one of the directory.
func (m *machine) tellsTwoDeploymentsApart() {
	m.t.Helper()
	m.run("useradd --create-home trying; runuser -u trying -- sh -c 'cd; mintage serve --dev --listen 127.0.0.1:9443 --management-listen 127.0.0.1:9444 >serve.out 2>&1 & echo $! >pid'")
	m.await("grep -q 'Scripts find these values' /home/trying/serve.out")
	if said := m.fails("runuser -u trying -- sh -c 'cd; mintage client create --name Shop --redirect-uri https://shop.example/cb --scope read'"); !strings.Contains(said, "for the server that runs in this directory, add --data mintage-data") {
		m.t.Errorf("beside the package, a tutorial's command says:\n%s", said)
	}
	if _, said, err := m.try("cd /home/trying; mintage client list"); err != nil || !strings.Contains(said, "this is the deployment of /etc/mintage/mintage.yaml, and not the server that runs in this directory") {
		m.t.Errorf("root's command says %v\n%s", err, said)
	}
	if said := m.run("runuser -u trying -- sh -c 'cd; mintage doctor --data mintage-data || test $? -eq 3'"); !strings.Contains(said, "note     demo client: the server runs with --dev") || !strings.Contains(said, "ok       public address: https://127.0.0.1:9443") {
		m.t.Errorf("without --dev, doctor says of a server with --dev:\n%s", said)
	}
	m.run("kill $(cat /home/trying/pid)")
}

// keepsItsKeyReadable makes the key-encryption key readable by the service's group, which
// doctor accepts, and then by everybody. Following doctor's advice leaves it readable by
// the service.
func (m *machine) keepsItsKeyReadable() {
	m.t.Helper()
	const doctor = "{ mintage doctor --config /etc/mintage/mintage.yaml --offline || :; }"
	m.run("cp -p /var/lib/mintage/kek /root/kek; chown root:mintage /var/lib/mintage/kek; chmod 640 /var/lib/mintage/kek; systemctl restart mintage")
	for _, as := range []string{"", "runuser -u mintage -- "} {
		if said := m.run(as + "sh -c '" + doctor + "'"); !strings.Contains(said, "ok       files:") {
			m.t.Errorf("%sa key for the service's group: %s", as, said)
		}
	}
	for _, owner := range []string{"root:mintage", "root:root"} {
		m.run("chown " + owner + " /var/lib/mintage/kek; chmod 644 /var/lib/mintage/kek")
		advice := strings.TrimSpace(m.run(doctor + " | grep -A1 'files: everybody on this machine can read' | sed -n 's/^ *do: //p'"))
		if !strings.Contains(advice, "/var/lib/mintage/kek") {
			m.t.Fatalf("doctor's advice for a world-readable key of %s is %q", owner, advice)
		}
		m.run(advice + "; runuser -u mintage -- test -r /var/lib/mintage/kek; systemctl restart mintage")
		m.fails("runuser -u nobody -- cat /var/lib/mintage/kek")
	}
	m.run("rm /var/lib/mintage/kek; cp -p /root/kek /var/lib/mintage/kek")
}

// keepsItsCertificate replaces the valid certificate by an expired one. The valid one
// stays in service.
func (m *machine) keepsItsCertificate() {
	m.t.Helper()
	cert, key := expired(m.t)
	m.run("cp -p /etc/mintage/tls.crt /etc/mintage/tls.key /root/")
	m.write("/etc/mintage/tls.crt", "644", cert)
	m.write("/etc/mintage/tls.key", "640", key)
	m.run("chgrp mintage /etc/mintage/tls.key")
	m.await(`curl --silent --fail --cacert /root/tls.crt https://127.0.0.1:8443/oauth2/jwks | grep -q kid
		curl --silent --fail http://127.0.0.1:9000/metrics | grep -q '^mintage_certificate_refused 1'
		journalctl --no-pager -u mintage | grep -q '"level":"ERROR","msg":"cannot use the new certificate; the old one stays in service".*it has expired at'`)
	m.run(`mintage config check --config /etc/mintage/mintage.yaml 2>&1 | grep -q 'warning: the certificate has expired'
		cp -p /root/tls.crt /root/tls.key /etc/mintage/`)
	m.await(`curl --silent --cacert /root/tls.crt https://127.0.0.1:8443/oauth2/jwks | grep -q kid
		curl --silent --fail http://127.0.0.1:9000/metrics | grep -q '^mintage_certificate_refused 0'`)
}

// recordsHonestTraffic repeats a request of one client so often that a too low rate limit
// would omit events from the audit log.
func (m *machine) recordsHonestTraffic() {
	m.t.Helper()
	m.run(`id=$(jq --raw-output .client_id /root/client.json); secret=$(jq --raw-output .client_secret /root/client.json)` + round + `
		token --data grant_type=authorization_code --data-urlencode "code=$code" >/root/repeated.json
		again='#[1-101]' # of one program, within the retry window on a slow machine too
		token --data grant_type=refresh_token --data-urlencode "refresh_token=$(jq --raw-output .refresh_token /root/repeated.json)" >/dev/null`)
	m.await(`test "$(mintage audit show --config /etc/mintage/mintage.yaml --event refresh_repeated --json | grep -c refresh_repeated)" -ge 100`)
	m.run(`curl --silent --fail http://127.0.0.1:9000/metrics >/root/metrics; grep -q '^mintage_audit_lost_total 0' /root/metrics
		grep -q '^mintage_audit_left_out_total{reason="rate"} 0' /root/metrics; grep -q 'alert: MintageAuditLeftOut' /usr/share/doc/mintage/packaging/monitoring/alerts.yaml`)
}

// expired returns a certificate that expired yesterday, with its key.
func expired(t *testing.T) (cert, key string) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-90 * 24 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, pair.Public(), pair)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", private)
}

// withoutItsDisk removes the data directory, before a start and under a running server.
func (m *machine) withoutItsDisk() {
	m.t.Helper()
	// An upgrade must not mistake an empty directory, such as an unmounted disk's, for a
	// new installation.
	m.run("mv /var/lib/mintage /var/lib/aside; install -d -m 700 -o mintage -g mintage /var/lib/mintage; dpkg --force-depends --force-confold --install " + inMachine)
	m.fails("systemctl start mintage")
	m.run(`systemctl stop mintage; test ! -e /var/lib/mintage/mintage.db; test ! -e /var/lib/mintage/new-store
		journalctl --no-pager -u mintage | grep -q 'refuse to make a new store: there is none in /var/lib/mintage/mintage.db'
		mintage doctor --config /etc/mintage/mintage.yaml --offline | grep -q 'mount its disk, or restore a backup'
		rm -r /var/lib/mintage; mv /var/lib/aside /var/lib/mintage; systemctl start mintage`)
	m.run("mv /var/lib/mintage/mintage.db /var/lib/aside.db")
	m.await(`test "$(curl --silent --output /dev/null --write-out '%{http_code}' http://127.0.0.1:9000/readyz)" = 503
		curl --silent http://127.0.0.1:9000/readyz | grep -q 'mintage.db is no longer the file that this server has open'
		journalctl --no-pager -u mintage | grep -q '"level":"ERROR","msg":"the store is gone'`)
	m.run("mv /var/lib/aside.db /var/lib/mintage/mintage.db")
	m.await("curl --silent --fail http://127.0.0.1:9000/readyz && journalctl --no-pager -u mintage | grep -q 'the store is back'")
	m.run("systemctl stop mintage")
}

// sandboxed inspects the running server's process from outside, and tries inside its
// sandbox what the unit allows and denies.
func (m *machine) sandboxed() {
	m.t.Helper()
	status := m.run("cat /proc/$(systemctl show mintage --property MainPID --value)/status")
	for _, line := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapBnd:\t0000000000000000", "CapEff:\t0000000000000000", "Umask:\t0077"} {
		if !strings.Contains(status, line+"\n") {
			m.t.Errorf("the process has no line %q:\n%s", line, status)
		}
	}
	if got := m.run("stat --format %U:%G:%a /var/lib/mintage /run/mintage /run/mintage/admin.sock"); got != "mintage:mintage:700\nmintage:mintage:755\nmintage:mintage-admin:660\n" {
		m.t.Errorf("its directories and socket are\n%s", got)
	}
	const inside = "cd /; nsenter --target $(systemctl show mintage --property MainPID --value) --mount "
	const asItself = inside + "--setuid $(id -u mintage) --setgid $(id -g mintage) "
	for _, allowed := range []string{
		asItself + "test -r /etc/mintage/tls.key", asItself + "sh -c 'touch /var/lib/mintage/x; rm /var/lib/mintage/x'",
		asItself + "test -r /proc/sys/net/core/somaxconn", asItself + "touch /tmp/x", "test -e /dev/loop0", "mkdir -p /home/somebody", "touch /tmp/of-others",
	} {
		m.run(allowed)
	}
	// Even root is denied these inside the sandbox.
	for _, refused := range []string{
		"touch /usr/x", "touch /etc/mintage/x", "touch /var/x", "touch /root/x", "test -e /dev/loop0", "test -e /tmp/of-others", "test -e /home/somebody",
		"touch /sys/fs/cgroup/x", "sh -c 'echo 0 >/proc/sys/kernel/panic'",
	} {
		m.fails(inside + refused)
	}
	m.fails(asItself + "test -e /proc/1")
}

// await repeats a script until it succeeds.
func (m *machine) await(script string) {
	m.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, _, err := m.try(script); err == nil {
			return
		}
		if time.Now().After(deadline) {
			m.run(script)
		}
	}
}
