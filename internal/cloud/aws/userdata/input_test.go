package userdata

import (
	"strings"
	"testing"
	"time"
)

// Whatever an instance would not boot with is refused with the field, the line and the cure.
func Test1_7_UserDataThatCannotBeMerged(t *testing.T) {
	archive := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n"
	for name, c := range map[string]struct {
		families []Family
		text     string
		line     int
	}{
		"archive of another type":       {[]Family{AL2, AL2023}, "MIME-Version: 1.0\nContent-Type: text/plain\n\nhi", 2},
		"archive without a type":        {[]Family{AL2, AL2023}, "\n\nMIME-Version: 1.0\n\nhi", 3},
		"archive with a broken type":    {[]Family{AL2, AL2023}, "Content-Type: multipart/\n\nhi", 1},
		"archive without a boundary":    {[]Family{AL2, AL2023}, "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--B\n\nhi", 2},
		"archive with a broken header":  {[]Family{AL2, AL2023}, "MIME-Version: 1.0\nbroken\n\nhi", 2},
		"archive without parts":         {[]Family{AL2, AL2023}, archive + "hi", 4},
		"archive without its header":    {[]Family{AL2, AL2023}, "--B\nContent-Type: text/x-shellscript\n\nls\n--B--", 1},
		"part with a broken header":     {[]Family{AL2, AL2023}, archive + "--B\nContent-Type: text/x-shellscript\nbroken\n\nls\n--B--", 6},
		"part with a broken type":       {[]Family{AL2, AL2023}, archive + "--B\nContent-Type: \n\nls\n--B--", 5},
		"part without an empty line":    {[]Family{AL2, AL2023}, archive + "--B\nContent-Type: text/x-shellscript\n--B--", 5},
		"second part broken":            {[]Family{AL2, AL2023}, archive + "--B\n\nls\n--B\nnot a header\n\nls\n--B--", 8},
		"NodeConfig with tabs":          {[]Family{AL2023}, "\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n\tkubelet: {}", 5},
		"NodeConfig without apiVersion": {[]Family{AL2023}, "# mine\nspec:\n  kubelet: {}", 2},
		"NodeConfig of another kind":    {[]Family{AL2023}, "apiVersion: node.eks.aws/v1alpha1\nkind: Node", 1},
		"NodeConfig of another group":   {[]Family{AL2023}, "apiVersion: v1\nkind: NodeConfig", 1},
		"NodeConfig of broken JSON":     {[]Family{AL2023}, "{\n\"apiVersion\": \"node.eks.aws/v1alpha1\",\n\"kind\": NodeConfig}", 3},
		"NodeConfig of mistyped JSON":   {[]Family{AL2023}, "{\n\"apiVersion\": 1}", 2},
		"table not closed":              {[]Family{Bottlerocket}, "\n[settings.kubernetes\nx = 1", 2},
		"key without value":             {[]Family{Bottlerocket}, "[settings]\nmotd", 2},
		"value that is none":            {[]Family{Bottlerocket}, "[settings]\nmotd = hello", 2},
		"string not closed":             {[]Family{Bottlerocket}, "[settings]\nmotd = \"hello\nx = 1", 2},
		"long string not closed":        {[]Family{Bottlerocket}, "[settings]\nmotd = '''hello\n\n", 3},
		"key given twice":               {[]Family{Bottlerocket}, "[settings]\nmotd = 'a'\nmotd = 'b'", 3},
		"table given twice":             {[]Family{Bottlerocket}, "[settings.ntp]\n[settings.ntp]", 2},
		"number too large":              {[]Family{Bottlerocket}, "[settings]\nx = 9223372036854775808", 2},
		"two values on a line":          {[]Family{Bottlerocket}, "[settings]\nx = 1 y = 2", 2},
		"unknown escape":                {[]Family{Bottlerocket}, "[settings]\nx = \"\\x\"", 2},
		"bytes that are no text":        {[]Family{Bottlerocket}, "[settings]\n\nx = '\xff'", 3},
		"nested too deep":               {[]Family{Bottlerocket}, "[settings]\nx = " + strings.Repeat("[", 100), 2},
		"settings is no table":          {[]Family{Bottlerocket}, "settings = 1", 1},
		"settings is a list of tables":  {[]Family{Bottlerocket}, "[[settings]]\nmotd = 'x'", 1},
		"kubernetes is no table":        {[]Family{Bottlerocket}, "[settings]\nkubernetes = 'x'", 2},
		"setting of the wrong kind":     {[]Family{Bottlerocket}, "[settings.kubernetes]\nmax-pods = '3'", 2},
		"labels are no table":           {[]Family{Bottlerocket}, "[settings.kubernetes]\nnode-labels = 'x'", 2},
		"label is no text":              {[]Family{Bottlerocket}, "[settings.kubernetes.node-labels]\na = 1", 2},
		"a script":                      {[]Family{Bottlerocket}, "#!/bin/bash\necho hi\n", 2},
		"tags of ours":                  {[]Family{Windows2019, Windows2022, Windows2025}, "\n<powershell>\nWrite-Host x\n</powershell>", 2},
		"closing tag":                   {[]Family{Windows2022}, "Write-Host x # </PowerShell>", 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, family := range c.families {
				_, err := Render(family, withUserData(c.text))
				wantInputError(t, err, "spec.userData", c.line)
			}
		})
	}
	t.Run("commands are no table", func(t *testing.T) {
		o := withUserData("[settings]\nbootstrap-commands = 1")
		o.InstanceStore = RAID0
		_, err := Render(Bottlerocket, o)
		wantInputError(t, err, "spec.userData", 2)
	})
}

func Test1_7_OptionsThatNoInstanceCanCarry(t *testing.T) {
	all := managed
	for name, c := range map[string]struct {
		families []Family
		change   func(*Options)
		field    string
	}{
		"cluster name with a quote":   {all, func(o *Options) { o.ClusterName = "a'b" }, "cluster name"},
		"no cluster name":             {all, func(o *Options) { o.ClusterName = "" }, "cluster name"},
		"endpoint with a command":     {all, func(o *Options) { o.Endpoint = "https://a'; reboot; '" }, "cluster endpoint"},
		"no endpoint":                 {all, func(o *Options) { o.Endpoint = "" }, "cluster endpoint"},
		"certificate with line break": {all, func(o *Options) { o.CABundle = "YQ==\n" }, "cluster certificate"},
		"certificate not encoded":     {all, func(o *Options) { o.CABundle = "-----BEGIN" }, "cluster certificate"},
		"service range":               {all, func(o *Options) { o.ServiceCIDR = "10.0.0.0" }, "cluster service range"},
		"no service range":            {[]Family{AL2023}, func(o *Options) { o.ServiceCIDR = "" }, "cluster service range"},
		"label value with a quote":    {all, func(o *Options) { o.Labels = map[string]string{"a": `'"`} }, `label "a"`},
		"label value with line break": {all, func(o *Options) { o.Labels = map[string]string{"a": "b\n"} }, `label "a"`},
		"label value with a variable": {all, func(o *Options) { o.Labels = map[string]string{"a": "$(reboot)"} }, `label "a"`},
		"label value too long":        {all, func(o *Options) { o.Labels = map[string]string{"a": strings.Repeat("x", 64)} }, `label "a"`},
		"label key with a comma":      {all, func(o *Options) { o.Labels = map[string]string{"a,b": "c"} }, `label "a,b"`},
		"label domain":                {all, func(o *Options) { o.Labels = map[string]string{"A/b": "c"} }, `label "A/b"`},
		"taint value":                 {all, func(o *Options) { o.Taints = []Taint{{"a", "b c", "NoSchedule"}} }, `taint "a"`},
		"taint key":                   {all, func(o *Options) { o.Taints = []Taint{{"", "", "NoSchedule"}} }, `taint ""`},
		"taint effect":                {all, func(o *Options) { o.Taints = []Taint{{"a", "", "Never"}} }, `taint "a"`},
		"DNS with a zone":             {all, func(o *Options) { o.Kubelet.ClusterDNS = []string{"fe80::1%'; reboot"} }, "spec.kubelet.clusterDNS"},
		"reserved amount":             {all, func(o *Options) { o.Kubelet.KubeReserved = map[string]string{"cpu": "100 m"} }, "spec.kubelet.kubeReserved[cpu]"},
		"reserved percentage":         {all, func(o *Options) { o.Kubelet.SystemReserved = map[string]string{"cpu": "5%"} }, "spec.kubelet.systemReserved[cpu]"},
		"reserved key":                {all, func(o *Options) { o.Kubelet.SystemReserved = map[string]string{"c'": "1"} }, `spec.kubelet.systemReserved["c'"]`},
		"eviction limit":              {all, func(o *Options) { o.Kubelet.EvictionHard = map[string]string{"memory.available": `5%"`} }, "spec.kubelet.evictionHard[memory.available]"},
		"soft eviction limit":         {all, func(o *Options) { o.Kubelet.EvictionSoft = map[string]string{"memory.available": ""} }, "spec.kubelet.evictionSoft[memory.available]"},
		"grace":                       {all, func(o *Options) { o.Kubelet.EvictionSoftGracePeriod = map[string]time.Duration{"memory.available": -1} }, "spec.kubelet.evictionSoftGracePeriod[memory.available]"},
		"instance store policy":       {all, func(o *Options) { o.InstanceStore = "RAID5" }, "spec.instanceStorePolicy"},
		"taints by the kubelet":       {[]Family{AL2023}, func(o *Options) { o.Kubelet.Extra = map[string]string{"registerWithTaints": "[]"} }, "spec.kubelet.registerWithTaints"},
		"broken field":                {[]Family{AL2023}, func(o *Options) { o.Kubelet.Extra = map[string]string{"port": "1 2"} }, "spec.kubelet.port"},
		"field of the file": {
			[]Family{AL2, Bottlerocket, Windows2019, Windows2022, Windows2025},
			func(o *Options) { o.Kubelet.Extra = map[string]string{"port": "1", "registerNode": "true"} },
			"spec.kubelet.port",
		},
		"two DNS servers":      {[]Family{Windows2019, Windows2022, Windows2025}, func(o *Options) { o.Kubelet.ClusterDNS = []string{"10.0.0.10", "10.0.0.11"} }, "spec.kubelet.clusterDNS"},
		"pods per core":        {[]Family{Bottlerocket}, func(o *Options) { o.Kubelet.PodsPerCore = ptr[int32](1) }, "spec.kubelet.podsPerCore"},
		"reserved pids":        {[]Family{Bottlerocket}, func(o *Options) { o.Kubelet.KubeReserved = map[string]string{"pid": "1"} }, "spec.kubelet.kubeReserved[pid]"},
		"limit of 100 percent": {[]Family{Bottlerocket}, func(o *Options) { o.Kubelet.EvictionHard = map[string]string{"memory.available": "100%"} }, "spec.kubelet.evictionHard[memory.available]"},
		"grace of a moment":    {[]Family{Bottlerocket}, func(o *Options) { o.Kubelet.EvictionSoftGracePeriod = map[string]time.Duration{"memory.available": 5} }, "spec.kubelet.evictionSoftGracePeriod[memory.available]"},
		"no such family":       {[]Family{"", "Ubuntu"}, func(*Options) {}, "spec.amiFamily"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, family := range c.families {
				_, err := Render(family, with(basic(), c.change))
				wantInputError(t, err, c.field, 0)
			}
		})
	}
}

// A condition or an event shows the error: it must be one short line whatever was given.
func Test1_7_ErrorsAreOneLine(t *testing.T) {
	long := strings.Repeat("é\n", 10000)
	for family, o := range map[Family]Options{
		AL2:          with(basic(), func(o *Options) { o.Labels = map[string]string{"a": long} }),
		AL2023:       with(basic(), func(o *Options) { o.Kubelet.KubeReserved = map[string]string{long: long} }),
		Bottlerocket: withUserData("x = " + strings.Repeat("é", 10000)),
		Windows2022:  with(basic(), func(o *Options) { o.ClusterName = long }),
	} {
		_, err := Render(family, o)
		if err == nil || len(err.Error()) > 600 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", family, err)
		}
	}
}
