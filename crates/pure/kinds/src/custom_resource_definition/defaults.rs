//! What a definition that says less says, and the empty things that count as unsaid.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionVersion,
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, JSONSchemaPropsOrStringArray,
};

/// Fills in the names and the conversion.
pub(super) fn fill(definition: &mut CustomResourceDefinition) {
    let spec = &mut definition.spec;
    let names = &mut spec.names;
    let kind = names.kind.clone();
    if !kind.is_empty() {
        names.singular.take_if(|name| name.is_empty());
        names.singular.get_or_insert_with(|| kind.to_lowercase());
        names.list_kind.take_if(|name| name.is_empty());
        names.list_kind.get_or_insert_with(|| format!("{kind}List"));
    }
    names.short_names.take_if(|names| names.is_empty());
    names.categories.take_if(|names| names.is_empty());
    spec.preserve_unknown_fields.take_if(|keeps| !*keeps);
    let conversion = spec.conversion.get_or_insert_with(|| CustomResourceConversion {
        strategy: "None".to_owned(),
        webhook: None,
    });
    // upstream keeps its parts apart, and makes it anew of those that are there
    conversion.webhook.take_if(|webhook| {
        webhook.client_config.is_none() && webhook.conversion_review_versions.is_empty()
    });
    let client = conversion.webhook.as_mut().and_then(|webhook| webhook.client_config.as_mut());
    if let Some(service) = client.and_then(|client| client.service.as_mut()) {
        service.port.get_or_insert(443);
    }
    spec.versions.iter_mut().for_each(drop_empty_of_version);
}

fn drop_empty_of_version(version: &mut CustomResourceDefinitionVersion) {
    version.additional_printer_columns.take_if(|columns| columns.is_empty());
    version.selectable_fields.take_if(|fields| fields.is_empty());
    version.deprecated.take_if(|deprecated| !*deprecated);
    for column in version.additional_printer_columns.iter_mut().flatten() {
        column.priority.take_if(|priority| *priority == 0);
        column.format.take_if(|format| format.is_empty());
        column.description.take_if(|description| description.is_empty());
    }
    let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
    if let Some(schema) = schema {
        drop_empty(schema);
    }
}

/// What Go does not print.
fn drop_empty(schema: &mut JSONSchemaProps) {
    for field in [
        &mut schema.description,
        &mut schema.format,
        &mut schema.id,
        &mut schema.pattern,
        &mut schema.ref_path,
        &mut schema.schema,
        &mut schema.title,
        &mut schema.type_,
    ] {
        field.take_if(|text| text.is_empty());
    }
    for field in [
        &mut schema.exclusive_maximum,
        &mut schema.exclusive_minimum,
        &mut schema.nullable,
        &mut schema.unique_items,
        &mut schema.x_kubernetes_embedded_resource,
        &mut schema.x_kubernetes_int_or_string,
    ] {
        field.take_if(|is_set| !*is_set);
    }
    schema.required.take_if(|names| names.is_empty());
    schema.enum_.take_if(|values| values.is_empty());
    schema.x_kubernetes_list_map_keys.take_if(|keys| keys.is_empty());
    schema.x_kubernetes_validations.take_if(|rules| rules.is_empty());
    for rule in schema.x_kubernetes_validations.iter_mut().flatten() {
        for field in [&mut rule.message, &mut rule.message_expression, &mut rule.field_path] {
            field.take_if(|text| text.is_empty());
        }
    }
    for list in [&mut schema.all_of, &mut schema.any_of, &mut schema.one_of] {
        list.take_if(|schemas| schemas.is_empty());
        list.iter_mut().flatten().for_each(drop_empty);
    }
    for map in [&mut schema.properties, &mut schema.definitions, &mut schema.pattern_properties] {
        map.take_if(|schemas| schemas.is_empty());
        map.iter_mut().flat_map(|map| map.values_mut()).for_each(drop_empty);
    }
    if let Some(schema) = &mut schema.not {
        drop_empty(schema);
    }
    for either in [&mut schema.additional_properties, &mut schema.additional_items] {
        match either {
            Some(JSONSchemaPropsOrBool::Schema(schema)) => drop_empty(schema),
            Some(JSONSchemaPropsOrBool::Bool(_)) | None => {}
        }
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(schema)) => drop_empty(schema),
        Some(JSONSchemaPropsOrArray::Schemas(schemas)) => schemas.iter_mut().for_each(drop_empty),
        None => {}
    }
    for either in schema.dependencies.iter_mut().flat_map(|map| map.values_mut()) {
        match either {
            JSONSchemaPropsOrStringArray::Schema(schema) => drop_empty(schema),
            JSONSchemaPropsOrStringArray::Strings(_) => {}
        }
    }
}
