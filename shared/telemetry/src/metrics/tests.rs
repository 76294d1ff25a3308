use std::path::Path;

use super::*;

#[test]
fn the_page_has_names_descriptions_and_buckets() {
    let recorder = recorder().unwrap();
    let page = ::metrics::with_local_recorder(&recorder, || {
        describe();
        for metric in ALL {
            match metric.kind {
                Kind::Counter => ::metrics::counter!(metric.name).increment(1),
                Kind::Gauge => ::metrics::gauge!(metric.name).set(1.0),
                Kind::Histogram => ::metrics::histogram!(metric.name).record(0.003),
            }
        }
        recorder.handle().render()
    });
    for metric in ALL {
        assert!(page.contains(&format!("# HELP {} {}", metric.name, metric.help)), "{}", metric.name);
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        assert!(page.contains(&format!("# TYPE {} {kind}\n", metric.name)), "{}", metric.name);
        if metric.unit == Unit::Seconds && metric.kind == Kind::Histogram {
            assert!(page.contains(&format!("{}_bucket{{le=\"0.0025\"}} 0\n", metric.name)), "{page}");
            assert!(page.contains(&format!("{}_bucket{{le=\"0.005\"}} 1\n", metric.name)), "{page}");
        }
    }
}

#[test]
fn it_is_set_up_once() {
    let page = crate::init("gateway", "1.2.3", crate::Format::Json).unwrap();
    assert!(page.render().contains("aip_build_info{service=\"gateway\",version=\"1.2.3\"} 1"));
    assert!(matches!(crate::init("gateway", "1.2.3", crate::Format::Text), Err(TelemetryError::Twice)));
}

/// A metric that is named in place has no description and no buckets.
#[test]
fn metrics_are_named_by_their_constants() {
    fn look(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("target") {
                    look(&path, found);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text: String = std::fs::read_to_string(&path).unwrap().split_whitespace().collect();
                for start in ["counter!(\"", "gauge!(\"", "histogram!(\""] {
                    // this file holds the patterns themselves
                    if text.contains(start) && !path.ends_with("telemetry/src/metrics/tests.rs") {
                        found.push(format!("{} has {start}", path.display()));
                    }
                }
            }
        }
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["services", "shared", "tests"] {
        look(&workspace.join(folder), &mut found);
    }
    assert!(found.is_empty(), "{found:#?}");
}
