package check

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const manifests = "../kubernetes"

// decode reads one manifest file strictly: a field that its kind does not have, or has
// twice, is an error.
func decode(t *testing.T, text string) (objects []runtime.Object, err error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme,
		networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		o, _, err := decoder.Decode([]byte(doc), nil, nil)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// kustomization is what ours use of the format.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Namespace  string   `json:"namespace"`
	Resources  []string `json:"resources"`
	Patches    []struct {
		Path string `json:"path"`
	} `json:"patches"`
}

func readKustomization(t *testing.T, dir string) (k kustomization) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(dir, "kustomization.yaml"))), &k); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	if k.Kind != "Kustomization" || k.APIVersion != "kustomize.config.k8s.io/v1beta1" || k.Namespace != "pathlockd" {
		t.Errorf("%s: is %+v", dir, k)
	}
	return k
}

// cluster is what is installed.
type cluster struct {
	set      *appsv1.StatefulSet
	config   *corev1.ConfigMap
	services map[string]*corev1.Service
	budget   *policyv1.PodDisruptionBudget
	network  *networkingv1.NetworkPolicy
}

func readCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{services: make(map[string]*corev1.Service)}
	base := filepath.Join(manifests, "base")
	listed := readKustomization(t, base).Resources
	files, err := filepath.Glob(filepath.Join(base, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); name != "kustomization.yaml" && !slices.Contains(listed, name) {
			t.Errorf("%s is not installed", file)
		}
	}
	for _, name := range listed {
		objects, err := decode(t, read(t, filepath.Join(base, name)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, o := range objects {
			switch o := o.(type) {
			case *appsv1.StatefulSet:
				c.set = o
			case *corev1.ConfigMap:
				c.config = o
			case *corev1.Service:
				c.services[o.Name] = o
			case *policyv1.PodDisruptionBudget:
				c.budget = o
			case *networkingv1.NetworkPolicy:
				c.network = o
			case *corev1.Namespace:
			default:
				t.Errorf("%s: nobody expected a %T", name, o)
			}
		}
	}
	if c.set == nil || c.config == nil || c.budget == nil || c.network == nil {
		t.Fatal("something is missing")
	}
	return c
}

// environment is that of one pod, as the kubelet makes it.
func (c *cluster) environment(t *testing.T, pod string, more ...corev1.EnvVar) map[string]string {
	t.Helper()
	env := make(map[string]string)
	container := c.set.Spec.Template.Spec.Containers[0]
	for _, from := range container.EnvFrom {
		if from.ConfigMapRef == nil || from.ConfigMapRef.Name != c.config.Name {
			t.Errorf("takes its environment from %+v", from)
		}
		maps.Copy(env, c.config.Data)
	}
	for _, v := range append(slices.Clone(container.Env), more...) {
		value := v.Value
		for name, known := range env {
			value = strings.ReplaceAll(value, "$("+name+")", known)
		}
		switch from := v.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
			value = pod
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace":
			value = "pathlockd"
		case from.SecretKeyRef != nil && from.SecretKeyRef.Name == "pathlockd" &&
			from.SecretKeyRef.Key == "internal_auth_token":
			value = secret
		default:
			t.Errorf("%s comes from %+v", v.Name, from)
		}
		if strings.Contains(value, "$(") {
			t.Errorf("%s: %s refers to what does not stand before it", v.Name, value)
		}
		env[v.Name] = value
	}
	return env
}

func TestKubernetes(t *testing.T) {
	c := readCluster(t)
	set := c.set
	pod := set.Spec.Template
	container := pod.Spec.Containers[0]

	// Who selects whom.
	own := labels.Set(pod.Labels)
	if !labels.SelectorFromSet(set.Spec.Selector.MatchLabels).Matches(own) ||
		!labels.SelectorFromSet(c.budget.Spec.Selector.MatchLabels).Matches(own) ||
		!labels.SelectorFromSet(c.network.Spec.PodSelector.MatchLabels).Matches(own) {
		t.Error("a selector does not match the pods")
	}
	head := c.services[set.Spec.ServiceName]
	if head == nil || head.Spec.ClusterIP != corev1.ClusterIPNone || !head.Spec.PublishNotReadyAddresses {
		t.Fatalf("the service %s is %+v", set.Spec.ServiceName, head)
	}
	ports := make(map[string]int32)
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
		if errs := validation.IsValidPortName(p.Name); len(errs) > 0 {
			t.Errorf("port %s: %v", p.Name, errs)
		}
	}
	has := func(what string, p intstr.IntOrString) {
		t.Helper()
		if p.Type == intstr.String && ports[p.StrVal] == 0 ||
			p.Type == intstr.Int && !slices.Contains(slices.Collect(maps.Values(ports)), p.IntVal) {
			t.Errorf("%s: the container has no port %v", what, p.String())
		}
	}
	for name, s := range c.services {
		if !labels.SelectorFromSet(s.Spec.Selector).Matches(own) {
			t.Errorf("service %s does not select the pods", name)
		}
		for _, p := range s.Spec.Ports {
			target := p.TargetPort
			if target == (intstr.IntOrString{}) {
				target = intstr.FromInt32(p.Port)
			}
			has("service "+name, target)
		}
	}
	for _, rule := range c.network.Spec.Ingress {
		for _, p := range rule.Ports {
			has("network policy", *p.Port)
		}
	}
	has("liveness", container.LivenessProbe.TCPSocket.Port)
	has("startup", container.StartupProbe.TCPSocket.Port)
	if got := container.ReadinessProbe.Exec.Command; !slices.Equal(got,
		[]string{"/usr/local/bin/pathlockd", "--health-check"}) {
		t.Errorf("readiness asks %q", got)
	}

	// Each pod's configuration.
	for i := range *set.Spec.Replicas {
		name := fmt.Sprintf("%s-%d", set.Name, i)
		env := c.environment(t, name)
		checkEnvironment(t, name, env)
		if seed := fmt.Sprintf("%s.%s:%d", name, head.Name,
			ports["gossip"]); !slices.Contains(strings.Split(env["PATHLOCKD_SEED_NODES"], ","), seed) {
			t.Errorf("%s is no seed", seed)
		}
		if env["PATHLOCKD_BOOTSTRAP"]+env["PATHLOCKD_FORCE_BOOTSTRAP"] != "" {
			t.Errorf("%s would found a cluster of its own", name)
		}
		for key, port := range map[string]string{"RAFT_ADDR": "raft", "LINK_ADDR": "link",
			"GOSSIP_ADVERTISE_ADDR": "gossip", "PUBLIC_ADDR": "grpc"} {
			want := fmt.Sprintf("%s.%s.pathlockd.svc:%d", name, head.Name, ports[port])
			if got := strings.TrimPrefix(env["PATHLOCKD_"+key], "http://"); got != want {
				t.Errorf("PATHLOCKD_%s is %s, want %s", key, got, want)
			}
		}
	}

	// What must not go wrong.
	if *pod.Spec.TerminationGracePeriodSeconds < 25 || *pod.Spec.EnableServiceLinks ||
		set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement ||
		c.budget.Spec.MaxUnavailable.IntVal != 1 || *set.Spec.Replicas%2 != 1 {
		t.Error("a stop, a start or a disruption would cost the majority")
	}
	volume := set.Spec.VolumeClaimTemplates[0]
	if m := container.VolumeMounts[0]; m.Name != volume.Name || m.MountPath != "/var/lib/pathlockd" ||
		set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled !=
			appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
		t.Error("the data is not kept")
	}
	if s := container.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
		!*pod.Spec.SecurityContext.RunAsNonRoot || s.Capabilities.Drop[0] != "ALL" {
		t.Error("the pod may do more than it needs")
	}
}

// TestFounder: the patch that founds the cluster starts one node that does.
func TestFounder(t *testing.T) {
	dir := filepath.Join(manifests, "found")
	k := readKustomization(t, dir)
	if !slices.Equal(k.Resources, []string{"../base"}) || len(k.Patches) != 1 {
		t.Fatalf("is %+v", k)
	}
	objects, err := decode(t, read(t, filepath.Join(dir, k.Patches[0].Path)))
	if err != nil {
		t.Fatal(err)
	}
	c := readCluster(t)
	patch := objects[0].(*appsv1.StatefulSet)
	if patch.Name != c.set.Name || *patch.Spec.Replicas != 1 ||
		patch.Spec.Template.Spec.Containers[0].Name != c.set.Spec.Template.Spec.Containers[0].Name {
		t.Errorf("patches %+v", patch)
	}
	env := c.environment(t, "pathlockd-0", patch.Spec.Template.Spec.Containers[0].Env...)
	checkEnvironment(t, "the founder", env)
	if env["PATHLOCKD_BOOTSTRAP"] != "true" || env["PATHLOCKD_FORCE_BOOTSTRAP"] != "true" {
		t.Errorf("founds nothing: %v", env)
	}
}

// TestBuilt: kustomize itself builds both, and what comes out is all that the base lists, in its
// namespace; the founder's is the base with the patch, and differs from it in nothing else.
func TestBuilt(t *testing.T) {
	base, found := build(t, "base"), build(t, "found")
	if len(base) != len(found) {
		t.Fatalf("%d objects of the base, and %d to found with", len(base), len(found))
	}
	for key, o := range base {
		meta := o.(metav1.Object)
		if _, space := o.(*corev1.Namespace); !space && meta.GetNamespace() != "pathlockd" {
			t.Errorf("%s is in the namespace %q", key, meta.GetNamespace())
		}
		set, ok := o.(*appsv1.StatefulSet)
		if !ok {
			if !reflect.DeepEqual(o, found[key]) {
				t.Errorf("%s differs where the cluster is founded", key)
			}
			continue
		}
		patched := found[key].(*appsv1.StatefulSet)
		container := &patched.Spec.Template.Spec.Containers[0]
		if *set.Spec.Replicas < 3 || *patched.Spec.Replicas != 1 {
			t.Errorf("%s has %d replicas, and %d to found with", key, *set.Spec.Replicas, *patched.Spec.Replicas)
		}
		added := make(map[string]string)
		container.Env = slices.DeleteFunc(container.Env, func(v corev1.EnvVar) bool {
			if strings.HasSuffix(v.Name, "BOOTSTRAP") {
				added[v.Name] = v.Value
				return true
			}
			return false
		})
		if !maps.Equal(added, map[string]string{"PATHLOCKD_BOOTSTRAP": "true", "PATHLOCKD_FORCE_BOOTSTRAP": "true"}) {
			t.Errorf("the founder is told %v", added)
		}
		patched.Spec.Replicas = set.Spec.Replicas
		if !reflect.DeepEqual(set, patched) {
			t.Errorf("%s is changed in more than what founds: see kubectl kustomize", key)
		}
	}
}

// build runs kustomize, and answers the objects by kind and name.
func build(t *testing.T, dir string) map[string]runtime.Object {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join(manifests, dir))
	if err != nil {
		t.Fatalf("kustomize build %s: %v", dir, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(t, string(text))
	if err != nil {
		t.Fatalf("what kustomize built of %s: %v\n%s", dir, err, text)
	}
	byName := make(map[string]runtime.Object)
	for _, o := range objects {
		byName[o.GetObjectKind().GroupVersionKind().Kind+" "+o.(metav1.Object).GetName()] = o
	}
	if len(byName) != len(objects) {
		t.Errorf("%s: two objects have one name:\n%s", dir, text)
	}
	return byName
}

// TestSecret: the example has the shape that the pods need, and is none that works.
func TestSecret(t *testing.T) {
	objects, err := decode(t, read(t, filepath.Join(manifests, "secret.example.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	s := objects[0].(*corev1.Secret)
	if s.Name != "pathlockd" || s.Namespace != "pathlockd" || len(s.StringData["internal_auth_token"]) < 32 {
		t.Errorf("is %+v", s)
	}
}

// TestStrict: what these tests rely on.
func TestStrict(t *testing.T) {
	good := read(t, filepath.Join(manifests, "base", "statefulset.yaml"))
	for old, broken := range map[string]string{
		"  replicas: 3": "  replica: 3", "minReadySeconds: 30": "minReadySeconds: soon",
		"serviceName: pathlockd\n": "serviceName: pathlockd\n  serviceName: other\n",
	} {
		if text := strings.Replace(good, old, broken, 1); text == good {
			t.Errorf("%q does not stand there", old)
		} else if _, err := decode(t, text); err == nil {
			t.Errorf("%q is taken", broken)
		}
	}
	if _, err := os.Stat(filepath.Join(manifests, "base", "secret.example.yaml")); err == nil {
		t.Error("the example secret would be installed")
	}
}
