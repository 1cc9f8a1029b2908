//! `state.waiting.reason`: what the kubelet or our own node says of a container that waits.
//!
//! The kubelet shows the error of its last try to start the container (`kubelet_pods.go`,
//! `convertToAPIContainerStatuses`), whatever part of it failed.

use crate::reason_table::reason_table;

reason_table! {
    /// Why a container waits.
    WaitingReason {
        /// The sandbox is being made, or the image pulled.
        ContainerCreating = "ContainerCreating";
        /// The same in a pod with init containers.
        PodInitializing = "PodInitializing";
        /// A restart of all containers is under way.
        RestartingAllContainers = "RestartingAllContainers";
        /// It ended, and its back-off is not over.
        CrashLoopBackOff = "CrashLoopBackOff";
        /// It was killed because its postStart hook failed.
        PostStartHookError = "PostStartHookError";
        /// A pull has failed.
        ErrImagePull = "ErrImagePull";
        /// The same, and the next try is later.
        ImagePullBackOff = "ImagePullBackOff";
        /// The image is not on the node, and imagePullPolicy is Never.
        ErrImageNeverPull = "ErrImageNeverPull";
        /// The image has no name that can be read.
        InvalidImageName = "InvalidImageName";
        /// The runtime could not say whether it has the image.
        ImageInspectError = "ImageInspectError";
        /// The registry does not answer.
        RegistryUnavailable = "RegistryUnavailable";
        /// The image's signature is refused.
        SignatureValidationFailed = "SignatureValidationFailed";
        /// What its spec refers to is missing or refused.
        CreateContainerConfigError = "CreateContainerConfigError";
        /// The runtime could not prepare it.
        CreateContainerError = "CreateContainerError";
        /// The kubelet's own step before that failed.
        PreCreateHookError = "PreCreateHookError";
        /// A volume that is an image could not be mounted.
        ImageVolumeMountFailed = "ImageVolumeMountFailed";
        /// The runtime prepared it, and could not run it.
        RunContainerError = "RunContainerError";
        /// The kubelet's own step before that failed.
        PreStartHookError = "PreStartHookError";
        /// The pod's sandbox could not be made.
        CreatePodSandboxError = "CreatePodSandboxError";
        /// The pod makes no sandbox that could be made.
        ConfigPodSandboxError = "ConfigPodSandboxError";
        /// What ran before could not be ended.
        KillContainerError = "KillContainerError";
        /// The sandbox before could not be ended.
        KillPodSandboxError = "KillPodSandboxError";
        /// What ran before could not be removed.
        RemoveContainerError = "RemoveContainerError";
        /// The pod's new resources could not be set.
        ResizePodInPlaceError = "ResizePodInPlaceError";
    }
}

/// What keeps a container that waits from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFamily {
    /// Nothing but time.
    OnItsWay,
    /// Its back-off, for its last end failed: that end tells why.
    AfterFailure,
    /// Its image.
    Image,
    /// What its spec refers to.
    Configuration,
    /// The runtime, which does not create it.
    Creation,
    /// The runtime, which does not run it.
    Run,
    /// The pod's sandbox.
    Sandbox,
    /// What ran before and does not end, or does not go.
    Predecessor,
    /// It is not known.
    Unknown,
}

impl WaitingReason<'_> {
    /// What keeps the container from starting.
    pub fn family(self) -> WaitFamily {
        match self {
            Self::ContainerCreating
            | Self::PodInitializing
            | Self::RestartingAllContainers
            | Self::Other("") => WaitFamily::OnItsWay,
            Self::CrashLoopBackOff | Self::PostStartHookError => WaitFamily::AfterFailure,
            Self::ErrImagePull
            | Self::ImagePullBackOff
            | Self::ErrImageNeverPull
            | Self::InvalidImageName
            | Self::ImageInspectError
            | Self::RegistryUnavailable
            | Self::SignatureValidationFailed => WaitFamily::Image,
            Self::CreateContainerConfigError => WaitFamily::Configuration,
            Self::CreateContainerError
            | Self::PreCreateHookError
            | Self::ImageVolumeMountFailed => WaitFamily::Creation,
            Self::RunContainerError | Self::PreStartHookError | Self::ResizePodInPlaceError => {
                WaitFamily::Run
            }
            Self::CreatePodSandboxError | Self::ConfigPodSandboxError => WaitFamily::Sandbox,
            Self::KillContainerError | Self::KillPodSandboxError | Self::RemoveContainerError => {
                WaitFamily::Predecessor
            }
            Self::Other(_) => WaitFamily::Unknown,
        }
    }

    /// Whether the image cannot be had and that is settled: the node has tried more than once, or
    /// does not try at all.
    pub fn has_given_up_image(self) -> bool {
        match self {
            Self::ImagePullBackOff | Self::ErrImageNeverPull | Self::InvalidImageName => true,
            Self::ContainerCreating
            | Self::PodInitializing
            | Self::RestartingAllContainers
            | Self::CrashLoopBackOff
            | Self::PostStartHookError
            | Self::ErrImagePull
            | Self::ImageInspectError
            | Self::RegistryUnavailable
            | Self::SignatureValidationFailed
            | Self::CreateContainerConfigError
            | Self::CreateContainerError
            | Self::PreCreateHookError
            | Self::ImageVolumeMountFailed
            | Self::RunContainerError
            | Self::PreStartHookError
            | Self::CreatePodSandboxError
            | Self::ConfigPodSandboxError
            | Self::KillContainerError
            | Self::KillPodSandboxError
            | Self::RemoveContainerError
            | Self::ResizePodInPlaceError
            | Self::Other(_) => false,
        }
    }
}
