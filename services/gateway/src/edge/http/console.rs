//! The console: pages for people, served from the program as they stand beside this file. They are a client like any
//! other, of the routes in the table, and hold nothing that is not public.

use axum::body::Body;
use axum::http::header::{CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Response, StatusCode};

use super::reply;

/// Scripts, styles and connections of this origin only; no frame, no form, no plug-in, no inline script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// One file of the console.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    pub path: &'static str,
    content_type: &'static str,
    content: &'static str,
}

const APPROVALS: &str = include_str!("console/approvals.html");

pub const PAGES: &[Page] = &[
    Page { path: "/console", content_type: HTML, content: APPROVALS },
    Page { path: "/console/approvals", content_type: HTML, content: APPROVALS },
    Page { path: "/console/console.css", content_type: STYLE, content: include_str!("console/console.css") },
    Page {
        path: "/console/icon.svg",
        content_type: "image/svg+xml",
        content: include_str!("console/icon.svg"),
    },
    // the shell that every page uses: sign-in, navigation, live updates
    Page { path: "/console/shell.js", content_type: SCRIPT, content: include_str!("console/shell.js") },
    Page {
        path: "/console/approvals.js",
        content_type: SCRIPT,
        content: include_str!("console/approvals.js"),
    },
];

// === impl Page ===

impl Page {
    pub(super) fn respond(&self) -> Response<Body> {
        let mut response = reply::respond(StatusCode::OK, self.content_type, self.content);
        let headers = response.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    }
}
