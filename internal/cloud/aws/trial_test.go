package aws

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud"
	"karpenter/internal/cloud/simaws"
)

func TestAWS_6_DryRunDenied(t *testing.T) {
	for action, want := range map[string]string{
		"ec2:CreateLaunchTemplate": awsv1.ReasonCreateLaunchTemplateAuthCheckFailed,
		"ec2:CreateFleet":          awsv1.ReasonCreateFleetAuthCheckFailed,
		"ec2:RunInstances":         awsv1.ReasonRunInstancesAuthCheckFailed,
	} {
		t.Run(action, func(t *testing.T) {
			w := newWorld(t)
			w.role(nodeRole)
			w.refresh()
			w.deny(action)
			class := w.addClass("default")
			got := class.StatusConditions(true).Get(awsv1.ConditionValidationSucceeded)
			if got.Status != metav1.ConditionFalse || got.Reason != want || !strings.Contains(got.Message, action) {
				t.Errorf("got %+v, want %s with a message that names %s", got, want, action)
			}
			w.opt.DisableDryRun = true
			w.reborn()
			w.Reconcile(w.ctx, class)
			if !class.StatusConditions(true).IsTrue(karpv1.ConditionReady) {
				t.Errorf("without dry run: %+v", class.Status.Conditions)
			}
		})
	}
}

func TestAWS_6_TrialCountsForAWhile(t *testing.T) {
	w := newWorld(t)
	class := w.load()
	calls := w.called("RunInstances")
	for range 5 {
		w.advance(5 * time.Minute)
		w.Reconcile(w.ctx, class)
	}
	if n := w.called("RunInstances"); n != calls {
		t.Errorf("nothing changed, but the launch was tried %d times more", n-calls)
	}
	w.advance(10 * time.Minute)
	w.Reconcile(w.ctx, class)
	class.Spec.UserData = aws.String("#!/bin/bash\necho hello\n")
	class.Generation++
	w.Reconcile(w.ctx, class)
	if n := w.called("RunInstances"); n != calls+2 {
		t.Errorf("the launch was tried %d times, want once after half an hour and once after a change", n-calls)
	}
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "ec2:RunInstances", Code: "InternalError", Status: 500}))
	w.advance(trialLife)
	w.Reconcile(w.ctx, class)
	if !class.StatusConditions(true).IsTrue(karpv1.ConditionReady) {
		t.Errorf("11.20: a server error takes nothing from a class that works: %+v", class.Status.Conditions)
	}
}

func TestAWS_1_7_UserDataThatCannotBeUsed(t *testing.T) {
	w := newWorld(t)
	w.load()
	for _, tt := range []struct {
		name, reason string
		edit         func(*awsv1.EC2NodeClass)
	}{
		{"too long", awsv1.ReasonUserDataSizeLimitExceeded, func(c *awsv1.EC2NodeClass) { c.Spec.UserData = aws.String(strings.Repeat("# long\n", 3000)) }},
		{"not TOML", ReasonUserDataInvalid, func(c *awsv1.EC2NodeClass) {
			c.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest"
			c.Spec.UserData = aws.String("[settings\n")
		}},
		{"image of another architecture", "NoInstanceTypes", func(c *awsv1.EC2NodeClass) {
			c.Spec.AMIFamily = aws.String("Windows2022")
			c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Name: "amazon-eks-node-al2023-arm64-standard-1.34-*"}}
		}},
		{"profile", awsv1.ReasonInstanceProfileNotFound, func(c *awsv1.EC2NodeClass) { c.Spec.Role, c.Spec.InstanceProfile = "", aws.String("nobody-made-this") }},
	} {
		got := w.addClass("bad", tt.edit).StatusConditions(true).Get(awsv1.ConditionValidationSucceeded)
		if got.Status != metav1.ConditionFalse || got.Reason != tt.reason {
			t.Errorf("%s: got %s %s: %s", tt.name, got.Status, got.Reason, got.Message)
		}
	}
}

func TestAWS_2_3_DeniedLaunch(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.deny("ec2:CreateFleet")
	r := w.Launch(w.ctx, w.batch("b", 1, onDemandOnly, typeIs("m5.large")))[0]
	if cloud.ClassOf(r.Err) != cloud.Denied || cloud.ReasonOf(r.Err) != "Unauthorized" {
		t.Errorf("got %v", r.Err)
	}
}
