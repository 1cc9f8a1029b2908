//! Probes and lifecycle hooks.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, PodSpec, Probe,
};
use rekindle_types::signals;
use rekindle_types::validation::field_error::FieldError;

use crate::validation::{Path, invalid_each, items, names, numbers, ports, text};

/// Checks the probes and hooks of a container that keeps running.
pub(super) fn validate_handlers(
    container: &Container,
    spec: &PodSpec,
    field: &Path,
) -> Vec<FieldError> {
    let grace = spec.termination_grace_period_seconds.unwrap_or_default();
    let mut errors = Vec::new();
    if let Some(lifecycle) = &container.lifecycle {
        let field = field.child("lifecycle");
        let hooks = [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)];
        for (name, hook) in hooks {
            if let Some(hook) = hook {
                errors.extend(self::hook(hook, grace, &field.child(name)));
            }
        }
        errors.extend(stop_signal(lifecycle, spec, &field.child("stopSignal")));
    }
    if let Some(probe) = &container.liveness_probe {
        let field = field.child("livenessProbe");
        errors.extend(self::probe(probe, &field));
        errors.extend(one_success(probe, &field));
    }
    if let Some(probe) = &container.readiness_probe {
        let field = field.child("readinessProbe");
        errors.extend(self::probe(probe, &field));
        if let Some(seconds) = probe.termination_grace_period_seconds {
            errors.push(FieldError::invalid(
                field.child("terminationGracePeriodSeconds"),
                seconds,
                "must not be set for readinessProbes",
            ));
        }
    }
    if let Some(probe) = &container.startup_probe {
        let field = field.child("startupProbe");
        errors.extend(self::probe(probe, &field));
        errors.extend(one_success(probe, &field));
    }
    errors
}

/// KEP-4960; a pod of another system than Linux is refused for that.
fn stop_signal(lifecycle: &Lifecycle, spec: &PodSpec, field: &Path) -> Option<FieldError> {
    let given = lifecycle.stop_signal.as_ref()?;
    if spec.os.is_none() {
        let why = "may not be set for containers with empty `spec.os.name`";
        return Some(FieldError::forbidden(field, why));
    }
    let known = signals::stop_signal_names();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    (!known.contains(&given.as_str())).then(|| FieldError::not_supported(field, given, &known))
}

fn one_success(probe: &Probe, field: &Path) -> Option<FieldError> {
    let threshold = probe.success_threshold.unwrap_or_default();
    (threshold != 1)
        .then(|| FieldError::invalid(field.child("successThreshold"), threshold, "must be 1"))
}

fn probe(probe: &Probe, field: &Path) -> Vec<FieldError> {
    let mut handlers = HandlerCheck::new(field);
    handlers.exec(probe.exec.as_ref());
    handlers.http_get(probe.http_get.as_ref());
    if let Some(action) = &probe.tcp_socket
        && let Some(field) = handlers.begin("tcpSocket")
    {
        handlers.errors.extend(ports::number_or_name(&action.port, &field.child("port")));
    }
    if let Some(action) = &probe.grpc
        && let Some(field) = handlers.begin("grpc")
    {
        handlers.errors.extend(ports::number(action.port, &field.child("port")));
        handlers.errors.extend(grpc_mode(action, &field.child("mode")));
    }
    let mut errors = handlers.finish();
    for (name, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        errors.extend(numbers::non_negative(value.unwrap_or_default(), &field.child(name)));
    }
    if let Some(seconds) = probe.termination_grace_period_seconds.filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            field.child("terminationGracePeriodSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    errors
}

/// KEP-4939. Without one the probe speaks in plain text.
fn grpc_mode(action: &GRPCAction, field: &Path) -> Option<FieldError> {
    const KNOWN: [&str; 2] = ["Plaintext", "TLS"];
    let mode = action.mode.as_deref()?;
    (!KNOWN.contains(&mode)).then(|| FieldError::not_supported(field, mode, &KNOWN))
}

fn hook(hook: &LifecycleHandler, grace: i64, field: &Path) -> Vec<FieldError> {
    let mut handlers = HandlerCheck::new(field);
    handlers.exec(hook.exec.as_ref());
    handlers.http_get(hook.http_get.as_ref());
    if let Some(action) = &hook.tcp_socket
        && let Some(field) = handlers.begin("tcpSocket")
    {
        handlers.errors.extend(ports::number_or_name(&action.port, &field.child("port")));
    }
    if let Some(action) = &hook.sleep
        && let Some(field) = handlers.begin("sleep")
        && !(0..=grace).contains(&action.seconds)
    {
        handlers.errors.push(FieldError::invalid(
            field,
            action.seconds,
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"),
        ));
    }
    handlers.finish()
}

/// One of several handlers: the first is checked, each further one is an error.
struct HandlerCheck<'a> {
    field: &'a Path,
    seen: usize,
    errors: Vec<FieldError>,
}

impl<'a> HandlerCheck<'a> {
    const fn new(field: &'a Path) -> Self {
        Self { field, seen: 0, errors: Vec::new() }
    }

    /// The path of the handler if it is the first.
    fn begin(&mut self, name: &str) -> Option<Path> {
        self.seen += 1;
        let field = self.field.child(name);
        if self.seen == 1 {
            return Some(field);
        }
        self.errors.push(FieldError::forbidden(field, "may not specify more than 1 handler type"));
        None
    }

    fn exec(&mut self, action: Option<&ExecAction>) {
        if let Some(action) = action
            && let Some(field) = self.begin("exec")
            && items(action.command.as_ref()).is_empty()
        {
            self.errors.push(FieldError::required(field.child("command"), ""));
        }
    }

    fn http_get(&mut self, action: Option<&HTTPGetAction>) {
        let Some(action) = action else { return };
        let Some(field) = self.begin("httpGet") else { return };
        self.errors.extend(ports::number_or_name(&action.port, &field.child("port")));
        let scheme = text(action.scheme.as_ref());
        if !matches!(scheme, "HTTP" | "HTTPS") {
            self.errors.push(FieldError::not_supported(
                field.child("scheme"),
                scheme,
                &["HTTP", "HTTPS"],
            ));
        }
        self.protocol(action, &field);
        for header in items(action.http_headers.as_ref()) {
            let messages = names::http_header(&header.name);
            self.errors.extend(invalid_each(&field.child("httpHeaders"), &header.name, messages));
        }
    }

    /// HTTP/2 is spoken without TLS, and with the pod itself (KEP-5999).
    fn protocol(&mut self, action: &HTTPGetAction, field: &Path) {
        let Some(protocol) = &action.protocol else { return };
        if !matches!(protocol.as_str(), "HTTP1" | "HTTP2") {
            let supported = ["HTTP1", "HTTP2"];
            let field = field.child("protocol");
            self.errors.push(FieldError::not_supported(field, protocol, &supported));
        }
        if protocol == "HTTP2" && text(action.scheme.as_ref()) == "HTTPS" {
            let why = "must be HTTP when protocol is HTTP2";
            self.errors.push(FieldError::invalid(field.child("scheme"), "HTTPS", why));
        }
        if protocol == "HTTP2" && !text(action.host.as_ref()).is_empty() {
            let why = "may not be set when protocol is HTTP2";
            self.errors.push(FieldError::forbidden(field.child("host"), why));
        }
    }

    fn finish(mut self) -> Vec<FieldError> {
        if self.seen == 0 {
            self.errors.push(FieldError::required(self.field, "must specify a handler type"));
        }
        self.errors
    }
}
