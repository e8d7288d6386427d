# Catalogue, network and images.
q() { aws ec2 "$@" --output text; }
[ $(aws ec2 describe-instance-types --query 'length(InstanceTypes)' --output json) -ge 700 ]
[ $(aws ec2 describe-instance-type-offerings --location-type availability-zone --filters Name=instance-type,Values=m5.large --query 'length(InstanceTypeOfferings)' --output json) -eq 4 ]
q describe-spot-price-history --instance-types m5.large --product-descriptions Linux/UNIX --start-time 2025-10-01T12:00:00Z --query 'SpotPriceHistory[].[AvailabilityZone,SpotPrice]'
q describe-availability-zones --query 'AvailabilityZones[].ZoneId'
q describe-regions --query 'length(Regions)'
q describe-vpcs --query 'Vpcs[].VpcId'
q describe-subnets --filters 'Name=tag:karpenter.sh/discovery,Values=my-cluster' --query 'Subnets[].SubnetId'
q modify-subnet-attribute --subnet-id subnet-0abc123 --map-public-ip-on-launch
group=$(q create-security-group --group-name extra --description extra --query GroupId)
q describe-security-groups --group-ids $group --query 'SecurityGroups[].GroupName'
q delete-security-group --group-id $group
ami=$(aws ssm get-parameter --name /aws/service/bottlerocket/aws-k8s-1.34/x86_64/latest/image_id --query Parameter.Value --output text)
aws ssm get-parameters --names /aws/service/bottlerocket/aws-k8s-1.34/x86_64/latest/image_id > /dev/null
aws ssm get-parameters-by-path --path /aws/service/bottlerocket/aws-k8s-1.34/x86_64/latest --query 'Parameters[].Name' --output text
aws ssm put-parameter --name /my/ami --value $ami --type String > /dev/null
q describe-images --owners self amazon --image-ids $ami --query 'Images[].Name'
copy=$(q copy-image --name mine --source-image-id $ami --source-region us-west-2 --query ImageId)
q enable-image-deprecation --image-id $copy --deprecate-at 2030-01-01T00:00:00Z
q deregister-image --image-id $copy
[ $(aws pricing get-products --region us-east-1 --service-code AmazonEC2 --filters Type=TERM_MATCH,Field=regionCode,Value=us-west-2 Type=TERM_MATCH,Field=instanceType,Value=m5.large --query 'length(PriceList)' --output json) -eq 1 ]
echo done
