//! A server nobody here wrote: hyper, with answers from a script.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// A request as it was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// Method and path.
    pub line: String,
    /// Serial number of the connection.
    pub conn: usize,
    /// Header fields.
    pub fields: hyper::HeaderMap,
    /// The body.
    pub body: String,
}

impl Received {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(|v| v.to_str().ok())
    }

    pub fn is_post(&self) -> bool {
        self.line.starts_with("POST")
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub version: Version,
    pub fields: Vec<(&'static str, String)>,
    /// Pause in ms, then bytes; None breaks the connection off.
    pub pieces: Vec<(u64, Option<String>)>,
}

impl Answer {
    /// A JSON document.
    pub fn json(status: u16, body: impl Into<String>) -> Self {
        Answer {
            status,
            version: Version::HTTP_11,
            fields: vec![("content-type", "application/json".to_owned())],
            pieces: vec![(0, Some(body.into()))],
        }
    }

    /// An event stream of `tokens` tokens, `pause` ms before each.
    pub fn stream(tokens: usize, pause: u64) -> Self {
        let token = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n".to_owned();
        let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
        let usage =
            format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":{tokens}}}}}\n\n");
        let mut pieces = vec![(pause, Some(token)); tokens];
        pieces.push((0, Some(format!("{finish}{usage}data: [DONE]\n\n"))));
        Answer {
            status: 200,
            version: Version::HTTP_11,
            fields: vec![("content-type", "text/event-stream".to_owned())],
            pieces,
        }
    }
}

/// The server. It ends with the test process.
pub struct ForeignServer {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

type Script = dyn Fn(&Received, usize) -> Option<Answer> + Send + Sync;

impl ForeignServer {
    /// `script` gets each request and the number of POSTs before it; where it answers None, `/v1/models` names
    /// the model `foreign`, and everything else is 404.
    pub fn start(script: impl Fn(&Received, usize) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("nonblocking");
        let address = listener.local_addr().expect("bound");
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let (script, log): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&received));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                for conn in 0.. {
                    let Ok((socket, _)) = listener.accept().await else { return };
                    let _ = socket.set_nodelay(true);
                    let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                    tokio::spawn(async move {
                        let service =
                            service_fn(move |request| answer(request, conn, Arc::clone(&script), Arc::clone(&log)));
                        let _ = http1::Builder::new()
                            .timer(TokioTimer::new())
                            .serve_connection(TokioIo::new(socket), service)
                            .await;
                    });
                }
            });
        });
        ForeignServer { address, received }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no panic").clone()
    }

    /// Connections that carried a POST.
    pub fn connections(&self) -> usize {
        let mut conns: Vec<usize> = self.received().iter().filter(|r| r.is_post()).map(|r| r.conn).collect();
        conns.sort_unstable();
        conns.dedup();
        conns.len()
    }
}

async fn answer(
    request: Request<Incoming>,
    conn: usize,
    script: Arc<Script>,
    log: Arc<Mutex<Vec<Received>>>,
) -> Result<Response<Pieces>, Infallible> {
    let line = format!("{} {}", request.method(), request.uri().path());
    let fields = request.headers().clone();
    let body = request.into_body().collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    let received = Received { line, conn, fields, body: String::from_utf8_lossy(&body).into_owned() };
    let posts = {
        let mut log = log.lock().expect("no panic");
        let posts = log.iter().filter(|r| r.is_post()).count();
        log.push(received.clone());
        posts
    };
    let fallback = || match received.line.as_str() {
        "GET /v1/models" => Answer::json(200, r#"{"object":"list","data":[{"id":"foreign"}]}"#),
        _ => Answer::json(404, r#"{"error":{"message":"no such path"}}"#),
    };
    let answer = script(&received, posts).unwrap_or_else(fallback);
    let mut response = Response::new(Pieces { left: answer.pieces.into(), pause: None });
    *response.status_mut() = StatusCode::from_u16(answer.status).expect("a status");
    *response.version_mut() = answer.version;
    for (name, value) in answer.fields {
        response.headers_mut().insert(name, value.parse().expect("a field value"));
    }
    Ok(response)
}

/// A body of pieces with pauses before them.
struct Pieces {
    left: VecDeque<(u64, Option<String>)>,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(&(pause, _)) = self.left.front() else { return Poll::Ready(None) };
        if pause > 0 {
            let sleep = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::from_millis(pause))));
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        }
        Poll::Ready(self.left.pop_front().map(|(_, piece)| match piece {
            Some(text) => Ok(Frame::data(Bytes::from(text))),
            None => Err(io::Error::other("broken off")),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }
}
