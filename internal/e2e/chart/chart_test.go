// Package chart renders the Helm chart with Helm itself and decodes the result as
// strictly as the Kubernetes API. The rendered files are kept in testdata/rendered, for
// the tests of the main module, which does not depend on Helm.
package chart

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what is rendered to testdata/rendered")

const source = "../../../packaging/helm/mintage"

// releases are the value files, each with the name of its release.
var releases = map[string]string{"sqlite": "mintage", "postgresql": "auth"}

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render renders the chart as `helm template` and `helm install` do.
func render(c *chart.Chart, release string, given map[string]any) (map[string]string, error) {
	return renderAs(c, chartutil.ReleaseOptions{Name: release, Namespace: "auth", Revision: 1, IsInstall: true}, given)
}

func renderAs(c *chart.Chart, release chartutil.ReleaseOptions, given map[string]any) (map[string]string, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
	v, err := chartutil.ToRenderValues(c, given, release, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, v)
}

// documents returns the objects of all rendered files, in order.
func documents(t *testing.T, files map[string]string) (list []string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for doc := range strings.SplitSeq(files[name], "\n---\n") {
			if strings.TrimSpace(doc) != "" {
				list = append(list, strings.TrimSpace(doc)+"\n")
			}
		}
	}
	return list
}

func TestTheChartIsRenderedAsItIsKept(t *testing.T) {
	c := load(t)
	for name, release := range releases {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			files, err := render(c, release, values(t, string(text)))
			if err != nil {
				t.Fatal(err)
			}
			list := documents(t, files)
			kinds := map[string]int{}
			for _, doc := range list {
				kinds[decode(t, doc)]++
			}
			want := map[string]map[string]int{
				"sqlite":     {"StatefulSet": 1, "ConfigMap": 1, "Service": 2, "ServiceAccount": 1, "NetworkPolicy": 1},
				"postgresql": {"Deployment": 1, "ConfigMap": 1, "Service": 2, "ServiceAccount": 1, "NetworkPolicy": 1, "PodDisruptionBudget": 1, "Ingress": 1, "ServiceMonitor": 1},
			}[name]
			if !maps.Equal(kinds, want) {
				t.Errorf("objects %v, want %v", kinds, want)
			}
			notes := files["mintage/templates/NOTES.txt"]
			if !strings.Contains(notes, "https://auth.example.com") || !strings.Contains(notes, "client create") {
				t.Errorf("the notes are\n%s", notes)
			}
			all := strings.Join(list, "---\n")
			kept := filepath.Join("testdata", "rendered", name+".yaml")
			if *update {
				if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o755), os.WriteFile(kept, []byte(all), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			before, err := os.ReadFile(kept)
			if err != nil || string(before) != all {
				t.Errorf("%s differs from the rendered chart (%v); run: make chart", kept, err)
			}
		})
	}
	digest := digest(t)
	kept := filepath.Join("testdata", "rendered", "digest")
	if *update {
		if err := os.WriteFile(kept, []byte(digest), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if before, err := os.ReadFile(kept); err != nil || string(before) != digest {
		t.Errorf("%s is not the digest of the chart (%v); run: make chart", kept, err)
	}
}

// TestOnlyAnInstallationMayMakeAStore: an installation may create a store; an upgrade may
// not, because it would replace a lost store by an empty one.
func TestOnlyAnInstallationMayMakeAStore(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "sqlite.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, install := range []bool{true, false} {
		files, err := renderAs(load(t), chartutil.ReleaseOptions{Name: "mintage", Namespace: "auth", Revision: 2, IsInstall: install, IsUpgrade: !install}, values(t, string(text)))
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(documents(t, files), "")
		if strings.Contains(all, "new_store: true") != install || strings.Contains(files["mintage/templates/NOTES.txt"], "helm --namespace auth upgrade mintage") != install {
			t.Errorf("installation %t:\n%s\n%s", install, all, files["mintage/templates/NOTES.txt"])
		}
	}
}

// digest is a hash of all files of the chart and of the values. The tests of the main
// module compute the same one.
func digest(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	for _, root := range []string{source, "testdata"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "rendered" {
				return fs.SkipDir
			}
			if d.IsDir() {
				return nil
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			fmt.Fprintf(sum, "%s %d\n%s\n", name, len(text), text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%x\n", sum.Sum(nil))
}

// decode decodes an object strictly, without unknown fields, and returns its kind.
func decode(t *testing.T, doc string) string {
	t.Helper()
	var kind struct{ Kind string }
	if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
		t.Fatal(err)
	}
	into := map[string]any{
		"StatefulSet": &apps.StatefulSet{}, "Deployment": &apps.Deployment{}, "ConfigMap": &core.ConfigMap{}, "Service": &core.Service{},
		"ServiceAccount": &core.ServiceAccount{}, "NetworkPolicy": &networking.NetworkPolicy{}, "Ingress": &networking.Ingress{},
		"PodDisruptionBudget": &policy.PodDisruptionBudget{},
		"ServiceMonitor":      &serviceMonitor{},
	}[kind.Kind]
	if into == nil {
		t.Fatalf("an object of the unexpected kind %q:\n%s", kind.Kind, doc)
	}
	if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
		t.Errorf("%s: %v\n%s", kind.Kind, err, doc)
	}
	switch w := into.(type) {
	case *apps.StatefulSet:
		restricted(t, w.Spec.Template, w.Spec.Selector.MatchLabels, len(w.Spec.VolumeClaimTemplates))
	case *apps.Deployment:
		restricted(t, w.Spec.Template, w.Spec.Selector.MatchLabels, 0)
	}
	return kind.Kind
}

// A serviceMonitor holds the fields of the Prometheus Operator's type that the chart
// uses.
type serviceMonitor struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		JobLabel string `json:"jobLabel"`
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// restricted requires what the pod security standard "restricted" requires, and that
// every mounted volume exists.
func restricted(t *testing.T, pod core.PodTemplateSpec, selector map[string]string, claims int) {
	t.Helper()
	for k, v := range selector {
		if pod.Labels[k] != v {
			t.Errorf("the selector %s=%s does not find the pod", k, v)
		}
	}
	s, c := pod.Spec.SecurityContext, pod.Spec.Containers[0]
	if !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault ||
		*c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem || !slices.Equal(c.SecurityContext.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("the pod may do more than the standard restricted allows: %+v, %+v", s, c.SecurityContext)
	}
	if *pod.Spec.TerminationGracePeriodSeconds <= c.Lifecycle.PreStop.Sleep.Seconds+10 {
		t.Error("a pod is killed before it has stopped")
	}
	there := claims
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && *v.Secret.DefaultMode != 0o440 {
			t.Errorf("%s has the mode %o", v.Name, *v.Secret.DefaultMode)
		}
		there++
	}
	if len(c.VolumeMounts) != there {
		t.Errorf("%d volumes and %d mounts", there, len(c.VolumeMounts))
	}
	for _, m := range c.VolumeMounts {
		if m.Name == "data" && claims == 1 {
			continue
		}
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/livez" {
		t.Error("a probe requests another path or port")
	}
}

func TestHelmFindsNothingWrong(t *testing.T) {
	for name := range releases {
		text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.All(source, values(t, string(text)), "auth", true).Messages {
			if !strings.Contains(m.Error(), "icon is recommended") {
				t.Errorf("%s: %s", name, m.Error())
			}
		}
	}
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	c := load(t)
	for text, want := range map[string]string{
		`{}`:                                     "publicURL is missing",
		`{publicURL: "http://auth.example.com"}`: "publicURL",
		`{publicURL: "https://auth.example.com"}`:                                           "set tls.existingSecret, or trustedProxies",
		`{publicURL: "https://a.example", tls: {existingSecret: x}, replica: 3}`:            "replica",
		`{publicURL: "https://a.example", database: {url: "postgres://u:p@h/d"}}`:           "url",
		`{publicURL: "https://a.example", database: {url: "postgres://u@h/d"}}`:             "kek.existingSecret is missing",
		`{publicURL: "https://a.example", tls: {existingSecret: x}, preStopSeconds: 40}`:    "terminationGracePeriodSeconds",
		`{publicURL: "https://a.example", tls: {existingSecret: x}, ingress: {enabled: y}}`: "ingress",
	} {
		if _, err := render(c, "mintage", values(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
